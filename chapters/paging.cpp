// build/bin/paging: what pages cost in a decode step, and what a shared prefix saves before the first token. Raw
// samples as JSON.
#include <fmt/format.h>

#include "chapters/08_paged/paged_cache.h"
#include "chapters/chapters.h"
#include "common/drawn_requests.h"
#include "common/generate.h"
#include "common/ids.h"
#include "common/measured_cache.h"
#include "common/measuring_program.h"
#include "common/progress.h"
#include "common/throughput.h"

namespace kvbook {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<int64_t>;

constexpr int64_t kFill = 256;  // tokens of a prompt in one forward

// ---- what gathering costs

/// A cache of so many rows, filled once; after each repetition of some decode steps it is truncated again.
struct Contender {
  std::string chapter;
  std::optional<int64_t> page;
  std::unique_ptr<KVCache> cache = {};
  std::unique_ptr<MeasuredCache> measured = {};     // around it
  std::vector<double> step_ms = {}, cache_ms = {};  // of every step
};

struct Place {
  int64_t rows, length;
  std::vector<Contender> contenders = {};
};

Place filled_place(Gpt2& model, int64_t rows, int64_t length, std::mt19937_64& draw) {
  Place place{rows, length};
  place.contenders.push_back({"04_preallocated", {}});
  place.contenders.push_back({"07_ragged_batch", {}});
  for (const int64_t page : {1, 8, 16, 32, 128}) place.contenders.push_back({"08_paged", page});
  const ModelShape& shape = model->shape();
  std::vector<torch::Tensor> prompts;
  for (int64_t row = 0; row < rows; ++row) prompts.push_back(to_row(drawn_ids(draw, length, shape.vocabulary)));
  const torch::Tensor ids = torch::cat(prompts);
  for (Contender& contender : place.contenders) {
    CacheOptions options = default_cache_options(shape);
    options.rows = rows;
    options.page = contender.page.value_or(options.page);
    contender.cache = find_chapter(contender.chapter).make_cache(shape, options);
    contender.measured = std::make_unique<MeasuredCache>(*contender.cache);
    for (int64_t fed = 0; fed < length; fed += kFill) {
      model->hidden({ids.narrow(1, fed, std::min(kFill, length - fed))}, *contender.measured);
    }
  }
  return place;
}

void measure_steps(Gpt2& model, Contender& contender, const Place& place, int64_t steps, bool keep) {
  const torch::Tensor ids = torch::full({place.rows, 1}, 20, torch::kInt64);
  for (int64_t step = 0; step < steps; ++step) {
    const double start = steady_seconds();
    model->logits(model->hidden({ids}, *contender.measured));
    if (!keep) continue;
    contender.step_ms.push_back(1e3 * (steady_seconds() - start));
    contender.cache_ms.push_back(1e3 * contender.measured->forwards().back().seconds);
  }
  contender.measured->truncate(place.length);
}

Json measure_gathering(Gpt2& model, const MeasuringOptions& options) {
  std::mt19937_64 draw(8);
  const int64_t context = model->shape().context;
  Json all = Json::array();
  fmt::print("\n{:>4} {:>7}  {:<16} {:>5} {:>9} {:>9}\n", "rows", "length", "chapter", "page", "cache ms", "step ms");
  for (const auto& [rows, length] :
       {std::pair{1, context / 8}, {1, context / 2}, {1, context * 15 / 16}, {8, context / 4}}) {
    Place place = filled_place(model, rows, length, draw);
    Progress progress(fmt::format("{} rows of {}", rows, length),
                      static_cast<int64_t>(place.contenders.size()) * (options.repetitions + 1));
    for (int64_t repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
      for (Contender& contender : place.contenders) {
        measure_steps(model, contender, place, options.steps, repetition > 0);
        progress.advance();
      }
    }
    for (const Contender& c : place.contenders) {
      fmt::print("{:>4} {:>7}  {:<16} {:>5} {:>9.2f} {:>9.2f}\n", rows, length, c.chapter,
                 c.page ? fmt::format("{}", *c.page) : "-", median(c.cache_ms), median(c.step_ms));
      Json entry = {{"rows", rows}, {"length", length}, {"chapter", c.chapter}, {"page", nullptr}};
      if (c.page) entry["page"] = *c.page;
      entry["cache_ms"] = c.cache_ms;
      entry["step_ms"] = c.step_ms;
      all.push_back(entry);
    }
  }
  return all;
}

// ---- what a shared prefix saves

/// Time to the first token of a prompt whose first `shared` tokens another request has left in the cache.
Json measure_prefixes(Gpt2& model, const MeasuringOptions& options) {
  std::mt19937_64 draw(80);
  const ModelShape& shape = model->shape();
  const int64_t n = shape.context / 2;
  const std::vector<int64_t> shares = {0, n / 2, n - 16};
  std::vector<std::vector<double>> ttft_ms(shares.size());
  Numbers adopted(shares.size());
  Progress progress("prefixes", static_cast<int64_t>(shares.size()) * (options.repetitions + 1));
  for (int64_t repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
    for (size_t i = 0; i < shares.size(); ++i) {
      PagedCache cache(shape, CacheOptions{}.page, /*pool_pages=*/0, /*rows=*/2);
      Numbers first = drawn_ids(draw, n, shape.vocabulary), prompt(first.begin(), first.begin() + shares[i]);
      for (const int64_t id : drawn_ids(draw, n - shares[i], shape.vocabulary)) prompt.push_back(id);
      model->hidden({to_row(first), {}, torch::zeros({1}, torch::kInt64)}, cache);
      cache.truncate(0, 0);
      const double start = steady_seconds();
      adopted[i] = cache.adopt_prefix(1, prompt);
      const Numbers rest(prompt.begin() + adopted[i], prompt.end());
      const torch::Tensor hidden = model->hidden({to_row(rest), {}, torch::ones({1}, torch::kInt64)}, cache);
      greedy_choice(model->logits(hidden.narrow(1, hidden.size(1) - 1, 1).squeeze(1)));
      if (repetition > 0) ttft_ms[i].push_back(1e3 * (steady_seconds() - start));
      progress.advance();
    }
  }
  Json all = Json::array();
  fmt::print("\n{:>7} {:>8} {:>9}\n", "prompt", "adopted", "TTFT ms");
  for (size_t i = 0; i < shares.size(); ++i) {
    fmt::print("{:>7} {:>8} {:>9.1f}\n", n, adopted[i], median(ttft_ms[i]));
    all.push_back({{"prompt", n}, {"adopted", adopted[i]}, {"ttft_ms", ttft_ms[i]}});
  }
  return all;
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return run_measuring_program(argc, argv, "paging", "What pages cost in a decode step, and what a shared prefix saves",
                               [](Gpt2& model, const MeasuringOptions& options, Json& json) {
                                 json["gathering"] = measure_gathering(model, options);
                                 json["prefixes"] = measure_prefixes(model, options);
                               });
}

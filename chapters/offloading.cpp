// build/bin/offloading: what a decode step costs with some layers in memory and the others in a file. Raw samples as
// JSON.
#include <fmt/format.h>

#include <set>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/11_offload/offloaded_cache.h"
#include "common/drawn_requests.h"
#include "common/ids.h"
#include "common/measuring_program.h"
#include "common/progress.h"
#include "common/throughput.h"

namespace kvbook {
namespace {

constexpr int64_t kFill = 256;  // tokens of a prompt in one forward

/// A cache, filled once; after each repetition of some decode steps it is truncated again.
struct Contender {
  std::unique_ptr<KVCache> cache;
  OffloadedCache* offloaded = nullptr;  // the same, unless all of it is in memory as in chapter 4
  std::vector<double> step_ms = {}, wait_ms = {}, read_mb = {};  // of every step
};

std::vector<Contender> contenders(const ModelShape& shape) {
  std::vector<Contender> list;
  list.push_back({std::make_unique<PreallocatedCache>(shape, shape.context)});
  for (const int64_t residents : std::set<int64_t, std::greater<>>{
           shape.layers, std::max<int64_t>(1, shape.layers * 2 / 3), std::max<int64_t>(1, shape.layers / 3), 2, 1}) {
    auto cache = std::make_unique<OffloadedCache>(shape, shape.context, residents);
    OffloadedCache* offloaded = cache.get();
    list.push_back({std::move(cache), offloaded});
  }
  return list;
}

void measure_steps(Gpt2& model, Contender& contender, int64_t length, int64_t steps, bool keep) {
  const torch::Tensor ids = torch::full({1, 1}, 20, torch::kInt64);
  model->hidden({ids}, *contender.cache);  // what others have left to be moved is not timed
  for (int64_t step = 0; step < steps; ++step) {
    OffloadedCache::Transfers before;
    if (contender.offloaded) before = contender.offloaded->transfers();
    const double start = steady_seconds();
    model->logits(model->hidden({ids}, *contender.cache));
    const double seconds = steady_seconds() - start;
    if (!keep) continue;
    contender.step_ms.push_back(1e3 * seconds);
    if (!contender.offloaded) continue;
    const OffloadedCache::Transfers& after = contender.offloaded->transfers();
    contender.wait_ms.push_back(1e3 * (after.seconds_waited - before.seconds_waited));
    contender.read_mb.push_back(static_cast<double>(after.bytes_read - before.bytes_read) / 1e6);
  }
  contender.cache->truncate(length);
}

void measure_offloading(Gpt2& model, const MeasuringOptions& options, nlohmann::ordered_json& json) {
  std::mt19937_64 draw(11);
  const ModelShape shape = model->shape();
  for (const int64_t length : {shape.context / 8, shape.context * 15 / 16}) {
    std::vector<Contender> list = contenders(shape);
    const torch::Tensor ids = to_row(drawn_ids(draw, length, shape.vocabulary));
    for (Contender& contender : list) {
      for (int64_t fed = 0; fed < length; fed += kFill) {
        model->hidden({ids.narrow(1, fed, std::min(kFill, length - fed))}, *contender.cache);
      }
    }
    {
      Progress progress(fmt::format("after {} tokens", length),
                        static_cast<int64_t>(list.size()) * (options.repetitions + 1));
      for (int64_t repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
        for (Contender& contender : list) {
          measure_steps(model, contender, length, options.steps, repetition > 0);
          progress.advance();
        }
      }
    }
    fmt::print("\n{:>6}  {:<24} {:>9} {:>8} {:>9} {:>8} {:>8}\n", "length", "layers in memory", "memory MB", "file MB",
               "read MB", "wait ms", "step ms");
    for (const Contender& c : list) {
      const bool offloads = c.offloaded != nullptr;
      const double memory = static_cast<double>(c.cache->bytes()) / 1e6;
      const double file = offloads ? static_cast<double>(c.offloaded->file_bytes()) / 1e6 : 0;
      const double read = offloads ? median(c.read_mb) : 0, wait = offloads ? median(c.wait_ms) : 0;
      const std::string name = offloads ? fmt::format("{}", c.offloaded->resident_layers()) : "all: 04_preallocated";
      fmt::print("{:>6}  {:<24} {:>9.1f} {:>8.1f} {:>9.1f} {:>8.2f} {:>8.1f}\n", length, name, memory, file, read, wait,
                 median(c.step_ms));
      json["offloading"].push_back({{"length", length},
                                    {"resident_layers", nullptr},
                                    {"memory_bytes", c.cache->bytes()},
                                    {"file_bytes", offloads ? c.offloaded->file_bytes() : 0},
                                    {"read_mb", c.read_mb},
                                    {"wait_ms", c.wait_ms},
                                    {"step_ms", c.step_ms}});
      if (offloads) json["offloading"].back()["resident_layers"] = c.offloaded->resident_layers();
    }
  }
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  return kvbook::run_measuring_program(argc, argv, "offloading",
                                       "What a decode step costs with some layers in memory and the others in a file",
                                       kvbook::measure_offloading);
}

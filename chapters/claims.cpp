// build/bin/claims NAME: things that are said of KV caches, each with a run that shows what is true. Counts and tokens
// only, no times: every machine prints the same.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "chapters/08_paged/paged_cache.h"
#include "chapters/08_paged/waste.h"
#include "chapters/09_int8/grouped_int8_cache.h"
#include "chapters/09_int8/int8_cache.h"
#include "chapters/09_int8/outlier.h"
#include "chapters/09_int8/tales_ranges.h"
#include "chapters/chapters.h"
#include "common/batch_generation.h"
#include "common/cli.h"
#include "common/console_text.h"
#include "common/drawn_requests.h"
#include "common/generate.h"
#include "common/ids.h"
#include "common/input_file.h"
#include "common/model_source.h"

namespace kvbook {
namespace {

const NamedModel& tales() {
  static const NamedModel model = open_model("tales", torch::kFloat32);
  return model;
}

/// Indented, 80 columns.
std::string text_of(const torch::Tensor& row) {
  std::string text;
  for (const std::string& line : wrapped(tales().tokenizer->decode(to_ids(row)), 76)) text += "    " + line + "\n";
  text.pop_back();
  return text;
}

/// The first `tokens` ids of the default tale, as the model tells it.
torch::Tensor beginning(int64_t tokens) {
  const std::vector<int64_t> prompt = default_prompt(tales());
  const auto session = open_session(find_chapter("04_preallocated"), tales().checkpoint,
                                    default_cache_options(tales().checkpoint.config.shape()));
  const torch::Tensor told = session->generate(to_row(prompt), {.new_tokens = tokens}).new_ids;
  return torch::cat({to_row(prompt), told}, 1).narrow(1, 0, tokens);
}

std::unique_ptr<KVCache> windowed_cache(int64_t window) {
  const ModelShape shape = tales().checkpoint.config.shape();
  return find_chapter("05_sliding_window").make_cache(shape, {.window = window, .capacity = shape.context});
}

struct Counts {
  int64_t tokens_fed = 0;  // through embeddings, projections and MLP
  int64_t keys_read = 0;   // by attention, in one head of one layer: visible pairs of query and key
};

/// Chapter 1 has one forward for each token that it chooses, over everything so far.
Counts count_naive(const torch::Tensor& prompt, int64_t new_tokens) {
  Counts counts;
  int64_t n = prompt.size(1);
  const auto on_token = [&](const torch::Tensor&) {
    counts.tokens_fed += n;
    counts.keys_read += n * (n + 1) / 2;  // the triangle
    ++n;
  };
  const auto session = open_session(find_chapter("01_naive"), tales().checkpoint, {});
  session->generate(prompt, {.new_tokens = new_tokens, .on_token = on_token});
  return counts;
}

Counts count_cached(const torch::Tensor& prompt, int64_t new_tokens) {
  Counts counts;
  const auto on_forward = [&](const TracedForward& forward) {
    counts.tokens_fed += forward.tokens();
    counts.keys_read += forward.visible.sum().item<int64_t>();
  };
  const CacheOptions options = default_cache_options(tales().checkpoint.config.shape());
  const auto session = open_session(find_chapter("04_preallocated"), tales().checkpoint, options, on_forward);
  session->generate(prompt, {.new_tokens = new_tokens});
  return counts;
}

int operations() {
  fmt::print("4 tokens of prompt and n new ones; in brackets: times the row above\n\n");
  fmt::print("{:>4}  {:<36}{}\n", "", "without a cache (01_naive)", "with one (04_preallocated)");
  fmt::print("{:>4}  {:<16}{:<20}{:<16}{}\n", "n", "tokens fed", "keys read", "tokens fed", "keys read");
  const auto cell = [](int64_t now, int64_t before) {
    if (before == 0) return fmt::format("{}", now);
    return fmt::format("{} ({:.1f})", now, static_cast<double>(now) / static_cast<double>(before));
  };
  Counts naive_before, cached_before;
  const torch::Tensor prompt = to_row({20, 30, 40, 50});
  for (const int64_t n : {50, 100, 200, 400}) {
    const Counts naive = count_naive(prompt, n), cached = count_cached(prompt, n);
    fmt::print("{:>4}  {:<16}{:<20}{:<16}{}\n", n, cell(naive.tokens_fed, naive_before.tokens_fed),
               cell(naive.keys_read, naive_before.keys_read), cell(cached.tokens_fed, cached_before.tokens_fed),
               cell(cached.keys_read, cached_before.keys_read));
    naive_before = naive;
    cached_before = cached;
  }
  return 0;
}

int forever() {
  const auto cache = windowed_cache(64);
  Gpt2 model(tales().checkpoint);
  const torch::Tensor prompt = to_row(default_prompt(tales()));
  const Generation generation = generate(model, *cache, prompt, {.new_tokens = 1000});
  fmt::print("window 64, {} tokens of prompt, 1,000 new ones asked for\n", prompt.size(1));
  fmt::print("new tokens: {}, finish reason: {}\n", generation.new_ids.size(1), to_string(generation.finish_reason));
  const std::vector<int64_t> slots = cache->slots();
  const auto empty = std::count(slots.begin(), slots.end(), kEmptySlot);
  fmt::print("positions used: {} of {}; keys held: {}\n", cache->length(), model->config().context,
             static_cast<int64_t>(slots.size()) - empty);
  return 0;
}

int cropping() {
  constexpr int64_t kWindow = 64, kTokens = 140, kNew = 24;
  Gpt2 model(tales().checkpoint);
  const torch::Tensor ids = beginning(kTokens), last = ids.narrow(1, kTokens - kWindow, kWindow);

  const auto windowed = windowed_cache(kWindow);
  const Generation with_window = generate(model, *windowed, ids, {.new_tokens = kNew});
  const auto fresh = windowed_cache(kWindow);
  const Generation cropped = generate(model, *fresh, last, {.new_tokens = kNew});
  fmt::print("{} tokens of a tale, W = {}. The last {} of them:\n{}\n\n", kTokens, kWindow, kWindow, text_of(last));
  fmt::print("a window over all {}:\n{}\n\n", kTokens, text_of(with_window.new_ids));
  fmt::print("a fresh run on those {}:\n{}\n\n", kWindow, text_of(cropped.new_ids));

  const auto a = windowed_cache(kWindow), b = windowed_cache(kWindow);
  const torch::Tensor one = model->logits(model->hidden({ids}, *a).select(1, -1));
  const torch::Tensor other = model->logits(model->hidden({last}, *b).select(1, -1));
  fmt::print("the first new token's logits differ by up to {:.1f}\n", (one - other).abs().max().item<double>());
  return 0;
}

int long_chunk() {
  constexpr int64_t kWindow = 8, kNew = 30;
  Gpt2 model(tales().checkpoint);
  const torch::Tensor ids = beginning(40);
  fmt::print("W = {}, a prompt of 40 tokens, {} new ones\n", kWindow, kNew);
  int status = 0;
  torch::Tensor first;
  for (const int64_t chunk : {1, 5, 16, 40}) {
    const auto cache = windowed_cache(kWindow);
    const Generation generation = generate(model, *cache, ids, {.new_tokens = kNew, .chunk = chunk});
    if (!first.defined()) first = generation.new_ids;
    fmt::print("fed {:>2} at a time: {}\n", chunk,
               generation.new_ids.equal(first) ? "the same tokens" : "OTHER TOKENS");
  }
  fmt::print("{}\n", text_of(first));
  return status;
}

/// The tokens that one cache gives after `ids`, fed one by one, and the logits that chose the last of them.
Generation tell_with(KVCache& cache, const Checkpoint& checkpoint, const torch::Tensor& ids, int64_t new_tokens) {
  Gpt2 model(checkpoint);
  return generate(model, cache, ids, {.new_tokens = new_tokens, .chunk = 1});
}

int order() {
  constexpr int64_t kWindow = 64, kNew = 24;
  const torch::Tensor ids = beginning(140);
  const Checkpoint checkpoint = open_model("tales", torch::kFloat64).checkpoint;
  const ModelShape shape = checkpoint.config.shape();
  const auto windowed = find_chapter("05_sliding_window").make_cache(shape, {.window = kWindow, .capacity = kWindow});
  const auto ring = find_chapter("06_ring_buffer").make_cache(shape, {.window = kWindow, .capacity = kWindow});
  const Generation in_order = tell_with(*windowed, checkpoint, ids, kNew),
                   as_they_lie = tell_with(*ring, checkpoint, ids, kNew);
  const auto print_slots = [](const char* name, const KVCache& cache) {
    const std::vector<int64_t> slots = cache.slots();
    fmt::print("{:<18} slots 0 to 5 hold positions {}\n", name,
               joined(std::vector<int64_t>(slots.begin(), slots.begin() + 6)));
  };
  fmt::print("W = {}, {} tokens of a tale and {} new ones, fed one by one, float64\n", kWindow, ids.size(1), kNew);
  print_slots("05_sliding_window", *windowed);
  print_slots("06_ring_buffer", *ring);
  const bool same = in_order.new_ids.equal(as_they_lie.new_ids);
  const double apart = (in_order.last_logits - as_they_lie.last_logits).abs().max().item<double>();
  fmt::print("the same tokens: {}; logits differ by less than 1e-9: {}\n", same ? "yes" : "NO",
             apart < 1e-9 ? "yes" : "NO");
  return same && apart < 1e-9 ? 0 : 1;
}

int take_back() {
  const ModelShape shape = tales().checkpoint.config.shape();
  Gpt2 model(tales().checkpoint);
  std::vector<std::pair<std::string, std::unique_ptr<KVCache>>> caches;
  caches.emplace_back("04_preallocated",
                      find_chapter("04_preallocated").make_cache(shape, default_cache_options(shape)));
  caches.emplace_back("05_sliding_window, W = 16", std::make_unique<SlidingWindowCache>(shape, 16));
  for (const int64_t spare : {0, 1, 4}) {
    caches.emplace_back(fmt::format("06_ring_buffer, W = 16, k = {}", spare),
                        std::make_unique<RingBufferCache>(shape, 16, spare));
  }
  fmt::print("how many of the last tokens can be taken back, by tokens fed\n\n{:<32}{:>6}{:>6}{:>6}{:>6}{:>6}\n", "", 8,
             15, 16, 17, 40);
  for (const auto& [name, cache] : caches) {
    fmt::print("{:<32}", name);
    for (const int64_t fed : {8, 15, 16, 17, 40}) {
      while (cache->length() < fed) model->hidden({to_row({20})}, *cache);
      fmt::print("{:>6}", cache->can_give_back());
    }
    fmt::print("\n");
  }
  return 0;
}

int padding() {
  const std::vector<std::string> openings = {"Once upon a time", "One day", "There was once a clever boy named"};
  std::vector<Request> requests;
  for (const std::string& text : openings) requests.push_back({tales().tokenizer->encode(text), 30});
  Gpt2 model(tales().checkpoint);
  const ModelShape shape = model->shape();
  int status = 0;
  for (const bool left : {false, true}) {
    RaggedBatchCache cache(shape, shape.context, /*rows=*/3);
    const BatchGeneration together = generate_batch(model, cache, requests, {.rows = 3, .pad_left = left});
    bool same = true;
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = find_chapter("04_preallocated").make_cache(shape, default_cache_options(shape));
      const Generation solo = generate(model, *alone, to_row(requests[i].prompt), {.new_tokens = 30});
      same = same && solo.new_ids.equal(together.answers[i].new_ids);
    }
    fmt::print("{} + {} + {} tokens, padding on the {}: {}\n", requests[0].prompt.size(), requests[1].prompt.size(),
               requests[2].prompt.size(), left ? "left " : "right", same ? "each row as alone" : "OTHER TOKENS");
    if (!same) status = 1;
  }
  return status;
}

int waste() {
  constexpr int64_t kContext = 1024, kSlots = 8 * kContext;
  std::mt19937_64 draw(64);
  std::vector<Length> requests;
  int64_t tokens = 0, longest = 0;
  for (int i = 0; i < 64; ++i) {
    const int64_t prompt = drawn_length(draw, 96, 1.0, 4, 512), answer = drawn_length(draw, 128, 1.0, 1, 512);
    requests.push_back({prompt, answer});
    tokens += prompt + answer - 1;
    longest = std::max(longest, prompt + answer - 1);
  }
  fmt::print("64 requests of log-normal lengths, {} tokens in all, {} the longest; {} slots, context {}\n", tokens,
             longest, kSlots, kContext);
  fmt::print("shares of the slots while somebody waits for room\n\n");
  fmt::print("{:<28}{:>8}{:>8}{:>8}{:>11}{:>9}{:>7}{:>11}{:>12}\n", "", "used", "inner", "outer", "kept free",
             "at once", "steps", "preempted", "recomputed");
  const auto row = [&](const std::string& name, const std::unique_ptr<Reservation>& reservation) {
    const Usage usage = serve(*reservation, kSlots, requests);
    fmt::print("{:<28}{:>6.1f} %{:>6.1f} %{:>6.1f} %{:>9.1f} %{:>9.1f}{:>7}{:>11}{:>12}\n", name, 100 * usage.used,
               100 * usage.inner, 100 * usage.outer, 100 * usage.kept_free, usage.at_once, usage.steps, usage.preempted,
               usage.recomputed);
  };
  row("the most a request may need", reserve_the_most(kSlots, kContext));
  row("the next power of two", reserve_powers_of_two(kSlots));
  for (const int64_t page : {128, 32, 16, 8}) row(fmt::format("pages of {}", page), reserve_pages(kSlots, page));
  return 0;
}

int sharing() {
  constexpr int64_t kOpening = 100, kNew = 12, kRows = 4;
  std::vector<Request> requests;
  for (const char* question : {" Who", " Where", " Then", " But", " And", " So", " One", " The"}) {
    std::vector<int64_t> prompt = to_ids(beginning(kOpening));
    for (const int64_t id : tales().tokenizer->encode(question)) prompt.push_back(id);
    requests.push_back({prompt, kNew});
  }
  Gpt2 model(tales().checkpoint);
  const ModelShape shape = model->shape();
  fmt::print("{} prompts that begin with the same {} tokens, {} rows, {} new tokens each\n\n", requests.size(),
             kOpening, kRows, kNew);
  fmt::print("{:<32}{:>12}{:>10}{:>22}  {}\n", "", "tokens fed", "adopted", "slots at the most", "tokens as alone");
  int status = 0;
  const auto serve_all = [&](const std::string& name, KVCache& cache, const std::function<int64_t()>& slots) {
    BatchOptions options{.rows = kRows};
    int64_t most = 0;
    options.on_token = [&](size_t, int64_t) { most = std::max(most, slots()); };
    const BatchGeneration done = generate_batch(model, cache, requests, options);
    bool same = true;
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = find_chapter("04_preallocated").make_cache(shape, default_cache_options(shape));
      const Generation solo = generate(model, *alone, to_row(requests[i].prompt), {.new_tokens = kNew});
      same = same && solo.new_ids.equal(done.answers[i].new_ids);
    }
    fmt::print("{:<32}{:>12}{:>10}{:>22}  {}\n", name, done.real_tokens, done.adopted_tokens, most,
               same ? "yes" : "NO");
    if (!same) status = 1;
  };
  RaggedBatchCache ragged(shape, shape.context, kRows);
  serve_all("07_ragged_batch", ragged, [&] { return kRows * shape.context; });
  PagedCache paged(shape, /*page=*/16, /*pool_pages=*/0, kRows);
  const auto used = [&] { return paged.tables().pool().used() * 16; };
  serve_all("08_paged, four at once", paged, used);
  serve_all("08_paged, the same once more", paged, used);
  return status;
}

int outlier() {
  const OutlierErrors errors = outlier_errors();
  fmt::print("16 keys, D = 64: channel 0 is 100 in each, the others within 0.3; errors of 8 bits\n\n");
  fmt::print("{:<24}{:>14}{:>20}{:>10}\n", "", "of the keys", "of the weights", "output");
  fmt::print("{:<24}{:>12.2f} %{:>20.4f}{:>8.1f} %\n", "one scale a token", 100 * errors.keys_a_token,
             errors.weights_a_token, 100 * errors.output_a_token);
  fmt::print("{:<24}{:>12.2f} %{:>20.4f}{:>8.1f} %\n", "one scale a channel", 100 * errors.keys_a_channel,
             errors.weights_a_channel, 100 * errors.output_a_channel);
  return 0;
}

/// A way of rounding, and a cache that does it.
struct Rounding {
  std::string name;
  int64_t first;  // token that sees a rounded key
  std::function<std::unique_ptr<KVCache>(const ModelShape&)> make;
};

/// How far each kind of rounding moves the logits of texts that the model tells without it, and the words. A token's
/// logits move by their greatest difference; the mean is over tokens that see a rounded key.
void print_rounding(const NamedModel& model, const std::vector<torch::Tensor>& prompts, int64_t new_tokens,
                    const std::vector<int64_t>& groups) {
  Gpt2 gpt2(model.checkpoint);
  const ModelShape shape = gpt2->shape();
  const KeyValueRanges ranges = tales_ranges(model);
  std::vector<Rounding> kinds = {
      {"a scale a token", 0, [](const ModelShape& s) { return std::make_unique<Int8Cache>(s); }},
      {"a scale a channel, measured", 0, [&](const ModelShape& s) { return std::make_unique<Int8Cache>(s, ranges); }}};
  for (const int64_t group : groups) {
    kinds.push_back({fmt::format("a scale a channel and {} tokens", group), group,
                     [=](const ModelShape& s) { return std::make_unique<GroupedInt8Cache>(s, group); }});
  }
  std::vector<torch::Tensor> told, whole, logits;  // of each text, without rounding; whole: all that was fed
  for (const torch::Tensor& prompt : prompts) {
    const auto exact = find_chapter("04_preallocated").make_cache(shape, default_cache_options(shape));
    told.push_back(generate(gpt2, *exact, prompt, {.new_tokens = new_tokens}).new_ids);
    whole.push_back(torch::cat({prompt, told.back()}, 1).narrow(1, 0, prompt.size(1) + new_tokens - 1));
    exact->reset();
    logits.push_back(gpt2->logits(gpt2->hidden({whole.back()}, *exact)));
  }
  fmt::print("{:<34}{:>12}{:>10}{:>20}{:>14}\n", "", "logits move", "at most", "same first choice", "text differs");
  for (const auto& [name, first, make] : kinds) {
    double sum = 0, most = 0;
    int64_t same = 0, fed = 0, tokens = 0, earliest = new_tokens + 1;
    for (size_t i = 0; i < told.size(); ++i) {
      const auto cache = make(shape);
      const torch::Tensor got = gpt2->logits(gpt2->hidden({whole[i]}, *cache));
      const torch::Tensor moved = (got - logits[i]).abs().amax(-1).narrow(1, first, got.size(1) - first);
      sum += moved.sum().item<double>();
      most = std::max(most, moved.max().item<double>());
      same += got.argmax(-1).eq(logits[i].argmax(-1)).sum().item<int64_t>();
      fed += got.size(1);
      tokens += moved.numel();
      cache->reset();
      const std::vector<int64_t> free = to_ids(generate(gpt2, *cache, prompts[i], {.new_tokens = new_tokens}).new_ids),
                                 right = to_ids(told[i]);
      const auto at = std::mismatch(free.begin(), free.end(), right.begin()).first - free.begin();
      if (at < new_tokens) earliest = std::min<int64_t>(earliest, at + 1);
    }
    fmt::print("{:<34}{:>12.3f}{:>10.3f}{:>18.1f} %{:>14}\n", name, sum / static_cast<double>(tokens), most,
               100.0 * static_cast<double>(same) / static_cast<double>(fed),
               earliest <= new_tokens ? fmt::format("at token {}", earliest) : "never");
  }
}

int rounding() {
  const NamedModel model = open_model("tales", torch::kFloat64);
  std::vector<torch::Tensor> openings;
  const nlohmann::json file = nlohmann::json::parse(read_text(data_folder() / "tales" / "prompts.json", 1 << 20));
  for (const auto& prompt : file.at("prompts")) {
    openings.push_back(to_row(prompt.at("ids").get<std::vector<int64_t>>()));
  }
  fmt::print("float64, against the same text without rounding\n\nmodel tales, {} tales of 200 new tokens\n",
             openings.size());
  print_rounding(model, openings, 200, {8, 32, 128});

  const NamedModel tiny = open_model((data_folder() / "golden" / "tiny").string(), torch::kFloat64);
  std::mt19937_64 draw(9);
  std::vector<torch::Tensor> drawn;
  for (int i = 0; i < 20; ++i) drawn.push_back(to_row(drawn_ids(draw, 4, tiny.checkpoint.config.vocabulary)));
  fmt::print("\nthe golden model tiny, whose weights are random, {} drawn prompts and 60 new tokens each\n",
             drawn.size());
  print_rounding(tiny, drawn, 60, {8, 32});
  return 0;
}

/// Where the default tale ends, from "At last" on, told with these windows; and the bytes that it took.
std::pair<std::string, int64_t> end_of_tale(const std::vector<int64_t>& layer_windows) {
  CacheOptions options = default_cache_options(tales().checkpoint.config.shape());
  options.layer_windows = layer_windows;
  const auto session = open_session(find_chapter("10_layer_windows"), tales().checkpoint, options);
  const GenerateOptions asked{.new_tokens = 200, .stop_at = tales().tokenizer->end_of_text()};
  std::vector<int64_t> ids = to_ids(session->generate(to_row(default_prompt(tales())), asked).new_ids);
  if (ids.back() == tales().tokenizer->end_of_text()) ids.pop_back();
  const std::string text = tales().tokenizer->decode(ids);
  const size_t end = text.find("At last");
  return {end == std::string::npos ? text : text.substr(end), session->bytes()};
}

int layers() {
  fmt::print("the default tale, which begins:\n{}\n\nand how it ends:\n", text_of(to_row(default_prompt(tales()))));
  const auto [right, all] = end_of_tale({0, 0, 0, 0});
  for (const std::vector<int64_t>& windows : {std::vector<int64_t>{0, 0, 0, 0},
                                              {64, 64, 0, 0},
                                              {0, 64, 0, 64},
                                              {64, 0, 64, 0},
                                              {0, 0, 64, 64},
                                              {64, 64, 64, 64}}) {
    const auto [text, bytes] = end_of_tale(windows);
    fmt::print("\n--layer-windows {}, {:.2f} MB, {:.0f} % of all: {}\n", fmt::join(windows, ","),
               static_cast<double>(bytes) / 1e6, 100 * static_cast<double>(bytes) / static_cast<double>(all),
               text == right ? "the same" : "another tale");
    for (const std::string& line : wrapped(text, 76)) fmt::print("    {}\n", line);
  }
  return 0;
}

/// Each returns the exit status: 1 if tokens differ that must agree.
const std::map<std::string, std::pair<std::string, int (*)()>> kClaims = {
    {"operations", {"\"A KV cache makes generation O(n)\"; \"without one the cost is exponential\"", operations}},
    {"forever", {"\"A sliding window lets GPT-2 write for ever\"", forever}},
    {"cropping", {"\"Cropping the prompt equals a windowed cache\"", cropping}},
    {"long_chunk", {"\"A prompt longer than the window cannot work\"", long_chunk}},
    {"order", {"\"Keys must be put back in time order before attention\"", order}},
    {"padding", {"\"Pad on the left, or the model is wrong\"", padding}},
    {"waste", {"\"Every request needs room for the longest answer\"", waste}},
    {"sharing", {"\"Requests with the same beginning cost the same as any others\"", sharing}},
    {"outlier", {"\"The keys come back within two per cent, so int8 is good enough\"", outlier}},
    {"rounding", {"\"int8 is free: a quarter of the memory and the same words\"", rounding}},
    {"layers", {"\"It does not matter which half of the layers has a window\"", layers}},
    {"take_back", {"\"Cutting the cache back is just setting the length\"", take_back}},
};

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("claims", [&] {
    std::string name, names;
    for (const auto& [known, claim] : kClaims) names += (names.empty() ? "" : ", ") + known;
    CLI::App app("Things that are said of KV caches, each with a run that shows what is true", "claims");
    app.add_option("claim", name, names)->required();
    if (!parse_or_help(app, argc, argv)) return 0;
    const auto claim = kClaims.find(name);
    if (claim == kClaims.end()) throw UsageError(fmt::format("there is no claim called '{}': one of {}", name, names));
    fmt::print("{}\n\n", claim->second.first);
    return claim->second.second();
  });
}

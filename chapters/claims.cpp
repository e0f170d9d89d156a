// build/bin/claims NAME: things that are said of KV caches, each with a run that shows what is true. Counts and tokens
// only, no times: every machine prints the same.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "chapters/chapters.h"
#include "common/cli.h"
#include "common/console_text.h"
#include "common/generate.h"
#include "common/ids.h"
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

/// Each returns the exit status: 1 if tokens differ that must agree.
const std::map<std::string, std::pair<std::string, int (*)()>> kClaims = {
    {"operations", {"\"A KV cache makes generation O(n)\"; \"without one the cost is exponential\"", operations}},
    {"forever", {"\"A sliding window lets GPT-2 write for ever\"", forever}},
    {"cropping", {"\"Cropping the prompt equals a windowed cache\"", cropping}},
    {"long_chunk", {"\"A prompt longer than the window cannot work\"", long_chunk}},
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

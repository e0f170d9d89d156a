// build/bin/layouts: two layouts of chapter 4's buffers, timed inside the cache and in attention.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "chapters/04_preallocated/answers/token_major_cache.h"
#include "chapters/04_preallocated/preallocated_cache.h"
#include "common/attention.h"
#include "common/axes.h"
#include "common/checkpoint.h"
#include "common/cli.h"
#include "common/timings.h"

namespace kvbook {
namespace {

constexpr int kWarmUpSteps = 20;
constexpr int kSteps = 101;  // odd: the median is a sample

/// [1, H, T, D] as the model's projections make it: a view of a third of [1, T, 3·E].
struct Projected {
  torch::Tensor query, key, value;

  Projected(const ModelShape& shape, int64_t T) {
    const int64_t E = shape.heads * shape.head_size;
    const auto qkv = torch::rand({1, T, 3 * E}).split(E, -1);
    const auto per_head = [&](const torch::Tensor& t) {
      return t.view({1, T, shape.heads, shape.head_size}).transpose(kHeadAxis, kSeqAxis);
    };
    query = per_head(qkv[0]);
    key = per_head(qkv[1]);
    value = per_head(qkv[2]);
  }
};

struct Layout {
  const char* name;
  std::unique_ptr<KVCache> cache;
  std::vector<double> cache_ms = {}, attention_ms = {};  // a step each, all layers
};

void fill(KVCache& cache, int64_t tokens) {
  const Projected chunk(cache.shape(), tokens);
  cache.begin({torch::zeros({1, tokens}, torch::kInt64)});
  for (int64_t layer = 0; layer < cache.shape().layers; ++layer) cache.update(layer, chunk.key, chunk.value);
  cache.commit();
}

// ANCHOR: step
/// One decode step without the rest of the model. It is abandoned, so that the next finds as many keys.
void timed_step(Layout& layout, const Projected& token) {
  KVCache& cache = *layout.cache;
  double in_cache = 0, in_attention = 0;
  double start = steady_seconds();
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  for (int64_t layer = 0; layer < cache.shape().layers; ++layer) {
    const KeyValues kv = cache.update(layer, token.key, token.value);
    const double between = steady_seconds();
    attend(token.query, kv);
    const double end = steady_seconds();
    in_cache += between - start;
    in_attention += end - between;
    start = end;
  }
  cache.abandon();
  layout.cache_ms.push_back(1e3 * in_cache);
  layout.attention_ms.push_back(1e3 * in_attention);
}
// ANCHOR_END: step

/// "0.123 ms [0.120–0.131]": the median, and between which two the middle half of the samples lies.
std::string median_and_quartiles(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return fmt::format("{:.3f} ms [{:.3f}–{:.3f}]", samples[n / 2], samples[n / 4], samples[3 * n / 4]);
}

void measure(int64_t keys, const ModelShape& shape) {
  std::vector<Layout> layouts;
  layouts.push_back({"[L, B, H, C, D]", std::make_unique<PreallocatedCache>(shape, shape.context)});
  layouts.push_back({"[L, B, C, H, D]", std::make_unique<TokenMajorCache>(shape, shape.context)});
  for (Layout& layout : layouts) fill(*layout.cache, keys - 1);
  const Projected token(shape, 1);
  for (int step = 0; step < kWarmUpSteps + kSteps; ++step) {
    if (step == kWarmUpSteps) {
      for (Layout& layout : layouts) layout.cache_ms = layout.attention_ms = {};
    }
    for (size_t i = 0; i < layouts.size(); ++i) timed_step(layouts[(i + step) % layouts.size()], token);  // in turn
  }
  for (const Layout& layout : layouts) {
    fmt::print("{:>5}  {}  {:<26}  {}\n", keys, layout.name, median_and_quartiles(layout.cache_ms),
               median_and_quartiles(layout.attention_ms));
  }
}

int run(int argc, char** argv) {
  int64_t threads = usable_cores();
  CLI::App app("Chapter 4's buffers in two layouts: time inside the cache, and in attention", "layouts");
  app.add_option("--threads", threads, "threads of LibTorch")->capture_default_str()->check(whole_number_fault);
  if (!parse_or_help(app, argc, argv)) return 0;
  check_threads(threads);
  at::set_num_threads(static_cast<int>(threads));

  const at::NoGradGuard no_grad;
  const ModelShape shape = gpt2_124m_config().shape();
  fmt::print("GPT-2 124M's shape, float32, one row · {} threads · {} decode steps each, in turn\n", threads, kSteps);
  fmt::print("median [middle half] of a step, all {} layers together\n\n", shape.layers);
  fmt::print("{:>5}  {:<15}  {:<26}  {}\n", "keys", "layout", "inside the cache", "attention");
  for (const int64_t keys : {128, 512, 1024}) measure(keys, shape);
  return 0;
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  return kvbook::exit_status_of("layouts", [&] { return kvbook::run(argc, argv); });
}

// build/bin/schedule: what chapter 11's cache moves while which layer computes, forward by forward. Counts only, no
// times: every machine prints the same.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "chapters/11_offload/offloaded_cache.h"
#include "common/cli.h"

namespace kvbook {
namespace {

constexpr ModelShape kShape = {
    .layers = 4, .heads = 4, .kv_heads = 4, .head_size = 32, .context = 512, .vocabulary = 1152};
constexpr int64_t kTokenBytes = 2 * 4 * 32 * 4;  // of a layer: 2·H·D·4
constexpr int64_t kPrompt = 8;

/// Tokens asked of the other thread since `before`.
struct Moved {
  int64_t read, written;
};

Moved moved_since(const OffloadedCache& cache, const OffloadedCache::Transfers& before) {
  return {(cache.transfers().bytes_read - before.bytes_read) / kTokenBytes,
          (cache.transfers().bytes_written - before.bytes_written) / kTokenBytes};
}

void show_forward(OffloadedCache& cache, int64_t T) {
  const int64_t P = cache.length();
  const bool ahead = cache.resident_layers() > 1;
  fmt::print("\n{} of {} layers have room in memory, P = {}, T = {}\n", cache.resident_layers(), kShape.layers, P, T);
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  const torch::Tensor key = torch::zeros({1, kShape.kv_heads, T, kShape.head_size});
  for (int64_t layer = 0; layer < kShape.layers; ++layer) {
    const OffloadedCache::Transfers before = cache.transfers();
    cache.update(layer, key, key);
    const Moved moved = moved_since(cache, before);
    const int64_t fetched = ahead ? layer + 1 : layer;
    fmt::print("  layer {} computes in buffer {}", layer, cache.buffer_of(layer));
    if (moved.written > 0) fmt::print(", {} written", moved.written);
    if (moved.read > 0) {
      fmt::print(", {} of layer {} fetched into buffer {}{}", moved.read, fetched, cache.buffer_of(fetched),
                 ahead ? " meanwhile" : " before");
    }
    fmt::print("\n");
  }
  const OffloadedCache::Transfers before = cache.transfers();
  cache.commit();
  const Moved moved = moved_since(cache, before);
  const int64_t first = std::max<int64_t>(0, cache.resident_layers() - 2);  // that does not stay
  fmt::print("  commit");
  if (moved.read > 0) fmt::print(", {} of layer {} fetched into buffer {}", moved.read, first, cache.buffer_of(first));
  fmt::print("\n");
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("schedule", [&] {
    CLI::App app("What moves between memory and the file while which layer computes: tokens of 4 layers", "schedule");
    if (!parse_or_help(app, argc, argv)) return 0;
    for (const int64_t residents : {2, 3, 1}) {
      OffloadedCache cache(kShape, kShape.context, residents);
      show_forward(cache, kPrompt);
      show_forward(cache, 1);
      show_forward(cache, 1);
    }
    return 0;
  });
}

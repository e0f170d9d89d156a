#include "chapters/answers.h"

#include "chapters/02_cat_cache/answers/joint_cat_cache.h"
#include "chapters/04_preallocated/answers/doubling_cache.h"
#include "chapters/04_preallocated/answers/token_major_cache.h"
#include "chapters/05_sliding_window/answers/late_shift_cache.h"
#include "chapters/05_sliding_window/answers/sink_cache.h"
#include "chapters/06_ring_buffer/answers/direct_chunk_ring_cache.h"
#include "chapters/06_ring_buffer/answers/ordered_ring_cache.h"
#include "chapters/06_ring_buffer/answers/sink_ring_cache.h"
#include "chapters/10_layer_windows/answers/growing_layer_windows_cache.h"
#include "chapters/10_layer_windows/answers/spare_layer_windows_cache.h"
#include "chapters/11_offload/answers/spread_offloaded_cache.h"

namespace kvbook {
namespace {

// clang-format off
std::vector<Chapter> make_answers() {
  return {
      {.name = "02_joint_cat", .same_tokens_as = "02_cat_cache", .change = "one tensor for keys and values",
       .takes_chunk = true, .no_chunk_on_history = "as chapter 2's cache",
       .make_cache = [](const ModelShape& shape, const CacheOptions&) { return std::make_unique<JointCatCache>(shape); }},
      {.name = "04_token_major", .same_tokens_as = "04_preallocated", .change = "a token's heads side by side",
       .takes_chunk = true, .takes_turns = true, .takes_capacity = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<TokenMajorCache>(shape, o.capacity); }},
      {.name = "04_doubling", .same_tokens_as = "04_preallocated", .change = "buffers that double when they are full",
       .takes_chunk = true, .takes_turns = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions&) { return std::make_unique<DoublingCache>(shape, kFirstSlots); }},
      {.name = "05_no_sinks", .same_tokens_as = "05_sliding_window", .change = "a list of positions says what is kept",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<SinkCache>(shape, /*sinks=*/0, o.window); }},
      {.name = "05_late_shift", .same_tokens_as = "05_sliding_window", .change = "shifts once in k + 1 steps",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<LateShiftCache>(shape, o.window, kSpareSlots); }},
      {.name = "06_direct_chunk", .same_tokens_as = "06_ring_buffer", .change = "a chunk of up to k + 1 tokens is written in place",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<DirectChunkRingCache>(shape, o.window, kSpareSlots); }},
      {.name = "06_no_sinks", .same_tokens_as = "06_ring_buffer", .change = "the first s tokens have slots of their own; here s = 0",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<SinkRingCache>(shape, /*sinks=*/0, o.window); }},
      {.name = "06_ordered", .same_tokens_as = "06_ring_buffer", .change = "every token twice, so that the window is one run",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<OrderedRingCache>(shape, o.window); }},
      {.name = "10_spare", .same_tokens_as = "04_preallocated", .change = "windowed layers have k slots to spare",
       .takes_chunk = true, .takes_turns = true, .takes_layer_windows = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<SpareLayerWindowsCache>(shape, o.layer_windows, kSpareSlots); }},
      {.name = "10_growing", .same_tokens_as = "04_preallocated", .change = "full layers double when they are full",
       .takes_chunk = true, .takes_turns = true, .takes_layer_windows = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<GrowingLayerWindowsCache>(shape, o.layer_windows, kFirstSlots); }},
      {.name = "11_spread", .same_tokens_as = "04_preallocated", .change = "layers that leave share one buffer, with others between them",
       .takes_chunk = true, .takes_turns = true, .takes_spill = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<SpreadOffloadedCache>(shape, shape.context, o.resident_layers, o.spill); }},
  };
}
// clang-format on

}  // namespace

const std::vector<Chapter>& answer_caches() {
  static const std::vector<Chapter> list = make_answers();
  return list;
}

}  // namespace kvbook

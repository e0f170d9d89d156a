#include "chapters/chapters.h"

#include "chapters/01_naive/naive_gpt2.h"
#include "chapters/02_cat_cache/cat_cache.h"
#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "chapters/08_paged/paged_cache.h"
#include "chapters/09_int8/grouped_int8_cache.h"
#include "chapters/09_int8/int8_cache.h"
#include "chapters/09_int8/tales_ranges.h"
#include "chapters/10_layer_windows/layer_windows_cache.h"
#include "chapters/11_offload/offloaded_cache.h"

namespace kvbook {
namespace {

const char kOneByOne[] = "chapter 2's cache takes several tokens at once only while it is empty; chapter 3 lifts this";

std::unique_ptr<KVCache> int8_cache(const ModelShape& shape, const CacheOptions& options) {
  if (options.scales == Scales::kGroup) return std::make_unique<GroupedInt8Cache>(shape, options.group);
  TORCH_CHECK_VALUE(options.scales == Scales::kToken || options.ranges.keys.defined(),
                    "scales a channel need ranges: measure them first");
  return std::make_unique<Int8Cache>(shape, options.scales == Scales::kChannel ? options.ranges : KeyValueRanges{});
}

// clang-format off
std::vector<Chapter> make_chapters() {
  return {
      {.name = "01_naive", .same_tokens_as = "", .change = "feeds the whole sequence for every new token",
       .open_uncached = [](const Checkpoint& checkpoint) { return std::make_unique<NaiveSession>(checkpoint); }},
      {.name = "02_cat_cache", .same_tokens_as = "01_naive", .change = "remembers keys and values with torch.cat",
       .takes_chunk = true, .no_chunk_on_history = kOneByOne,
       .make_cache = [](const ModelShape& shape, const CacheOptions&) { return std::make_unique<CatCache>(shape); }},
      {.name = "03_masked_offsets", .same_tokens_as = "02_cat_cache", .change = "takes chunks and turns of any length",
       .takes_chunk = true, .takes_turns = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions&) { return std::make_unique<MaskedOffsetsCache>(shape); }},
      {.name = "04_preallocated", .same_tokens_as = "03_masked_offsets", .change = "writes in place into fixed buffers",
       .takes_chunk = true, .takes_turns = true, .takes_capacity = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<PreallocatedCache>(shape, o.capacity); }},
      {.name = "05_sliding_window", .same_tokens_as = "04_preallocated", .change = "keeps the last W tokens",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<SlidingWindowCache>(shape, o.window); }},
      {.name = "06_ring_buffer", .same_tokens_as = "05_sliding_window", .change = "keeps the last W tokens where they are",
       .takes_chunk = true, .takes_turns = true, .takes_window = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<RingBufferCache>(shape, o.window); }},
      {.name = "07_ragged_batch", .same_tokens_as = "04_preallocated", .change = "gives every row a length of its own",
       .takes_chunk = true, .takes_turns = true, .takes_rows = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<RaggedBatchCache>(shape, shape.context, o.rows); }},
      {.name = "08_paged", .same_tokens_as = "04_preallocated", .change = "keeps tokens in pages that rows can share",
       .takes_chunk = true, .takes_turns = true, .takes_rows = true, .takes_pages = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<PagedCache>(shape, o.page, o.pool_pages, o.rows); }},
      {.name = "09_int8", .same_tokens_as = "04_preallocated", .change = "stores keys and values in 8 bits",
       .rounds = "keys and values are rounded to 8 bits",
       .takes_chunk = true, .takes_turns = true, .takes_scales = true,
       .make_cache = int8_cache, .measure_ranges = tales_ranges},
      {.name = "10_layer_windows", .same_tokens_as = "04_preallocated", .change = "gives every layer a window of its own",
       .takes_chunk = true, .takes_turns = true, .takes_layer_windows = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<LayerWindowsCache>(shape, o.layer_windows); }},
      {.name = "11_offload", .same_tokens_as = "04_preallocated", .change = "keeps most layers in a file",
       .takes_chunk = true, .takes_turns = true, .takes_spill = true,
       .make_cache = [](const ModelShape& shape, const CacheOptions& o) { return std::make_unique<OffloadedCache>(shape, shape.context, o.resident_layers, o.spill); }},
  };
}
// clang-format on

}  // namespace

const std::vector<Chapter>& chapters() {
  static const std::vector<Chapter> list = make_chapters();
  return list;
}

std::vector<Chapter> exact_chapters() {
  std::vector<Chapter> exact;
  for (const Chapter& chapter : chapters()) {
    if (chapter.rounds.empty()) exact.push_back(chapter);
  }
  return exact;
}

const Chapter& find_chapter(const std::string& name) {
  for (const Chapter& chapter : chapters()) {
    if (chapter.name == name) return chapter;
  }
  TORCH_CHECK_VALUE(false, "there is no chapter called '", name, "'");
}

}  // namespace kvbook

// A window that drops old keys before the chunk has attended to them.
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class EvictsBeforeItAttends final : public SlidingWindowCache {
 public:
  using SlidingWindowCache::SlidingWindowCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    const KeyValues all = SlidingWindowCache::update(layer, key, value);
    const int64_t S = all.keys.size(kSeqAxis), last = std::min(S, window_);
    if (S == last) return all;
    return {all.keys.narrow(kSeqAxis, S - last, last),  // wrong: the chunk's first queries still see older keys
            all.values.narrow(kSeqAxis, S - last, last), all.visible.narrow(-1, S - last, last)};
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure evicts_before_it_attends() {
  return {.chapter = broken("05_sliding_window", "evicts_before_it_attends", "evicts first and attends after",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<EvictsBeforeItAttends>(shape, options.window);
                            }),
          .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
          .symptom = "right token by token, wrong for a chunk that does not fit the window's free slots",
          .cure = "attend first, evict after: chapter 5",
          .scene = {.new_tokens = 60, .chunk = 16, .window = 12}};
}

}  // namespace kvbook

// A window whose chunks have a causal mask without the window's lower edge.
#include "chapters/03_masked_offsets/causal_mask.h"
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class NoBandInAChunk final : public SlidingWindowCache {
 public:
  using SlidingWindowCache::SlidingWindowCache;

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    SlidingWindowCache::on_begin(step);
    const int64_t T = step.ids.size(1);
    if (T > 1) visible_ = causal_mask(kept(), T, step.ids.device());  // wrong: nothing hides keys older than W
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure no_band_in_a_chunk() {
  return {.chapter = broken("05_sliding_window", "no_band_in_a_chunk", "lets a chunk see more than W keys",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<NoBandInAChunk>(shape, options.window);
                            }),
          .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
          .symptom = "other text for another chunk size",
          .cure = "a band in the mask, h + i - W < j <= h + i: chapter 5",
          .scene = {.new_tokens = 60, .chunk = 16, .window = 12}};
}

}  // namespace kvbook

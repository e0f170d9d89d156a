// A ring whose mask counts columns, as a window that shifts may.
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct OwnedRing {
  RingBufferCache ring;
};

class MasksARingByColumn final : private OwnedRing, public ForwardingCache {
 public:
  MasksARingByColumn(const ModelShape& shape, int64_t window)
      : OwnedRing{RingBufferCache(shape, window)}, ForwardingCache(ring), window_(std::min(window, shape.context)) {}

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    KeyValues kv = ForwardingCache::update(layer, key, value);
    const int64_t T = new_tokens(), S = kv.keys.size(kSeqAxis);
    if (T > 1) kv.visible = window_mask(S - T, T, window_, key.device());  // wrong: column j is position P + T - S + j
    return kv;
  }
  // ANCHOR_END: fault

 private:
  int64_t window_;
};

}  // namespace

Failure masks_a_ring_by_column() {
  return {.chapter = broken("06_ring_buffer", "masks_a_ring_by_column", "masks columns as if they were in order",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<MasksARingByColumn>(shape, options.window);
                            }),
          .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
          .symptom = "right until the ring has wrapped, then a chunk sees the wrong keys",
          .cure = "write down which position each column is, and mask by that: chapter 6",
          .scene = {.new_tokens = 60, .chunk = 7, .window = 12}};
}

}  // namespace kvbook

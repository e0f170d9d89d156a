// Two buffers in turn for an odd number of layers, each filled again as soon as the layer before has run.
#include "tests/failures/failure.h"
#include "tests/failures/slow_memory_cache.h"

namespace kvbook {
namespace {

class FetchesOverABufferInUse final : public SlowMemoryCache {
 public:
  explicit FetchesOverABufferInUse(const ModelShape& shape) : SlowMemoryCache(shape, shape.layers % 2 == 0 ? 1 : 0) {}

 protected:
  // ANCHOR: fault
  void fetch_ahead(int64_t layer) override {
    if (layer < staying_) return;
    const int64_t in_turn = shape().layers - staying_;
    const int64_t next = staying_ + (layer - staying_ + 1) % in_turn;
    fetch(next, length());  // wrong behind the last layer: the first one's buffer is the one that it looks at
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure fetches_over_a_buffer_in_use() {
  return {.chapter = broken("11_offload", "fetches_over_a_buffer_in_use", "fetches into a buffer that is looked at",
                            [](const ModelShape& shape, const CacheOptions&) {
                              return std::make_unique<FetchesOverABufferInUse>(shape);
                            }),
          .check = "GreedyTokensAreThoseOfTheFullRecompute",
          .symptom = "right for an even number of layers in two buffers, wrong for an odd one",
          .cure = "fetch the first layer at commit, when nobody looks at a buffer: chapter 11"};
}

}  // namespace kvbook

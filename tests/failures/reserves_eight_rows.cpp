// Buffers for as many rows as there may ever be, whatever the batch is.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

constexpr int64_t kMostRows = 8;

class ReservesEightRows final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    if (!keys_.defined()) {
      const int64_t B = key.size(0);
      const std::vector<int64_t> size = {shape().layers, kMostRows, shape().kv_heads, capacity_, shape().head_size};
      keys_ = torch::empty(size, key.options()).narrow(1, 0, B);  // wrong: B rows are used, kMostRows are paid for
      values_ = torch::empty(size, key.options()).narrow(1, 0, B);
    }
    return PreallocatedCache::update(layer, key, value);
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure reserves_eight_rows() {
  return {.chapter = broken("04_preallocated", "reserves_eight_rows", "makes buffers for 8 rows, whatever the batch is",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<ReservesEightRows>(shape, options.capacity);
                            }),
          .check = "TheMemoryHeldIsWhatBytesSaysAndResetReleasesIt",
          .symptom = "memory runs out long before the formula says so",
          .cure = "make the buffers at the first key, which knows the rows: chapter 4"};
}

}  // namespace kvbook

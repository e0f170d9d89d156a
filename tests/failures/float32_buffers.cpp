// Buffers in float32, whatever the model computes in.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class Float32Buffers final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    if (!keys_.defined()) {
      const int64_t B = key.size(0);
      const std::vector<int64_t> size = {shape().layers, B, shape().kv_heads, capacity_, shape().head_size};
      keys_ = torch::empty(size);  // wrong: without key.options() it is float32
      values_ = torch::empty(size);
    }
    return PreallocatedCache::update(layer, key, value);
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure float32_buffers() {
  return {.chapter = broken("04_preallocated", "float32_buffers", "makes float32 buffers, whatever the model is",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<Float32Buffers>(shape, options.capacity);
                            }),
          .check = "Case09TheCacheTakesTheDtypeOfTheModel",
          .symptom = "twice the memory with a bfloat16 model, or an attention that refuses",
          .cure = "take dtype and device from the first key: chapter 4",
          .scene = {.dtype = torch::kBFloat16}};
}

}  // namespace kvbook

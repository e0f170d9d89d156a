// The whole buffer given to attention, slots that were never written with it.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class UnwrittenSlotsVisible final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    if (!keys_.defined()) {
      const int64_t B = key.size(0);
      const std::vector<int64_t> size = {shape().layers, B, shape().kv_heads, capacity_, shape().head_size};
      keys_ = torch::zeros(size, key.options());
      values_ = torch::zeros(size, key.options());
    }
    const KeyValues right = PreallocatedCache::update(layer, key, value);
    if (right.visible.defined()) return right;
    return {keys_[layer], values_[layer], {}};  // wrong: a key of zeros has the score 0, and gets weight
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure unwritten_slots_visible() {
  return {.chapter = broken("04_preallocated", "unwritten_slots_visible", "attends to all C slots, written or not",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<UnwrittenSlotsVisible>(shape, options.capacity);
                            }),
          .check = "Case03WhatAnAbandonedForwardLeftInTheSlotsGetsNoWeight",
          .symptom = "text that is better the fuller the cache is, and NaN where the slots held something",
          .cure = "return the slots filled so far, or hide the others: chapter 4"};
}

}  // namespace kvbook

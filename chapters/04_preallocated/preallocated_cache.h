// Chapter 4: allocate keys and values once, then write every chunk in place.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Fixed-capacity cache: keys and values in one [L, B, H, C, D] buffer each.
/// Memory: 2·L·B·H·C·D·sizeof(dtype), at the first update (GPT-2 124M, float32, B = 1, C = 1024: 75.5 MB).
/// Time:   update() copies 2·B·H·T·D values, whatever P is.
class PreallocatedCache : public KVCache {
 public:
  /// @throws c10::ValueError unless every size is positive.
  PreallocatedCache(const ModelShape& shape, int64_t capacity);

  /// Stores key and value in slots [P, P + T). Returns views of the buffers: keys, values [B, H, P + T, D]; visible
  /// bool [T, P + T], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< C of them once the buffers are made

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError if P + T > C; makes the step's mask
  void on_abandon() override;
  // ANCHOR_END: contract

 protected:
  // Not private, for the caches of tests/failures, which differ from this one in one place.
  int64_t capacity_;             // C
  torch::Tensor keys_, values_;  // [L, B, H, C, D], undefined before the first update
  torch::Tensor visible_;        // of the open forward
};

}  // namespace kvbook

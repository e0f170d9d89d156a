// Exercise 4.1: chapter 4's buffers in the other layout, a token's heads side by side.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 4's cache with keys and values in one [L, B, C, H, D] buffer each: the layout in which the projection
/// writes them. What it returns is transposed, and not contiguous.
/// Memory and time as chapter 4; only where the numbers lie differs.
class TokenMajorCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size is positive.
  TokenMajorCache(const ModelShape& shape, int64_t capacity);

  /// Returns views of the buffers: keys, values [B, H, P + T, D], a step of H·D from a key to the next; visible as in
  /// chapter 4.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError if P + T > C; makes the step's mask
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  int64_t capacity_;             // C
  torch::Tensor keys_, values_;  // [L, B, C, H, D], undefined before the first update
  torch::Tensor visible_;        // of the open forward
};

}  // namespace kvbook

// Chapter 5: remember the last W tokens only; attend first, evict after.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: mask
/// h old keys, then T new ones: column j is the key at position P - h + j, row i the query at position P + i. A query
/// sees the last W keys up to its own: visible[i][j] is h + i - W < j <= h + i. bool [T, h + T].
torch::Tensor window_mask(int64_t h, int64_t T, int64_t W, torch::Device device);
// ANCHOR_END: mask

// ANCHOR: contract
/// The last W tokens, oldest first, in one [L, B, H, W, D] buffer each for keys and values. A query needs W - 1 old
/// keys and its own, so between forwards the first min(P, W - 1) slots are filled and one is free for the next token.
/// Memory: 2·L·B·H·W·D·sizeof(dtype), at the first update, and scratch for one layer's keys, B·H·W·D. A chunk that does
///         not fit the free slots is staged beside them until commit: 2·L·B·H·(W - 1 + T)·D·sizeof(dtype) more.
/// Time:   update() copies T tokens; commit() shifts W - 1 tokens of every layer once the window is full.
class SlidingWindowCache : public KVCache {
 public:
  /// @throws c10::ValueError unless every size is positive. A window above the context is the context.
  SlidingWindowCache(const ModelShape& shape, int64_t window);

  /// keys, values [B, H, h + T, D] with h = min(P, W - 1); visible bool [T, h + T], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< W of them once the buffers are made, oldest first

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< evicts: keeps the last W - 1 tokens
  void on_abandon() override;
  // ANCHOR_END: contract

  // Protected and not private, for the caches of tests/failures, which differ from this one in one place.
  int64_t kept() const { return std::min(length(), window_ - 1); }  // h: old tokens, in slots [0, h)

  int64_t window_;               // W
  torch::Tensor keys_, values_;  // [L, B, H, W, D], undefined before the first update
  torch::Tensor visible_;        // of the open forward

 private:
  void allocate();
  void release();

  torch::Tensor scratch_;  // [B, H, W, D]: what a shift moves lies here for a moment
  // A chunk too long for the slots, a layer each: [B, H, h + T, D].
  std::vector<torch::Tensor> staged_keys_, staged_values_;
};

}  // namespace kvbook

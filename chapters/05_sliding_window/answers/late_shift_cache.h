// Exercise 5.2: a window with some slots to spare, which shifts once in a while instead of every step.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 5's window in W + k slots. Tokens are written one behind the other; when the last slot is filled, commit()
/// moves the last W - 1 tokens to the front, so that the next k + 1 find room. With k = 0 it is chapter 5's cache.
/// Memory: 2·L·B·H·(W + k)·D·sizeof(dtype), at the first update, and scratch for one layer's keys, B·H·W·D. A chunk
///         that does not fit is staged beside them until commit, as in chapter 5.
/// Time:   update() copies T tokens; commit() moves W - 1 tokens of every layer once in k + 1 decode steps.
class LateShiftCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and k at least 0. A window above the context
  /// is the context.
  LateShiftCache(const ModelShape& shape, int64_t window, int64_t spare);

  /// keys, values [B, H, h + T, D] with h = min(P, W - 1); visible bool [T, h + T], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< W + k of them; one left behind counts as empty

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;
  void on_abandon() override;
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  void allocate();
  void release();
  int64_t kept() const { return std::min(length(), window_ - 1); }  // h: they lie in slots [filled_ - h, filled_)

  int64_t window_, spare_;       // W, k
  int64_t filled_ = 0;           // slots [0, filled_) have been written since the last shift, by committed forwards
  torch::Tensor keys_, values_;  // [L, B, H, W + k, D], undefined before the first update
  torch::Tensor scratch_;        // [B, H, W, D]
  std::vector<torch::Tensor> staged_keys_, staged_values_;  // a chunk too long for the slots: [B, H, h + T, D]
  torch::Tensor visible_;
};

}  // namespace kvbook

// Chapter 6: the window without shifting; position p lies in slot p mod R.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: mask
/// `columns`: the position of the key in each of S columns, in any order, kEmptySlot where there is none. Row i is the
/// query at position P + i. visible[i][j] is P + i - W < columns[j] <= P + i. bool [T, S].
torch::Tensor ring_mask(const std::vector<int64_t>& columns, int64_t P, int64_t T, int64_t W, torch::Device device);
// ANCHOR_END: mask

// ANCHOR: contract
/// The last R = W + k tokens in one [L, B, H, R, D] buffer each for keys and values. A token stays in the slot that it
/// was written to, position mod R, until the one R positions later takes its place. The k slots to spare hold tokens
/// that no query sees any more; they can be seen again after truncate().
/// Memory: 2·L·B·H·R·D·sizeof(dtype), at the first update. A chunk of two or more tokens that goes over the free slots
///         is staged until commit: 2·L·B·H·(min(P, R) + T)·D·sizeof(dtype) more.
/// Time:   a decode step copies its own token, whatever W is. A staged chunk copies what is held, itself, and its last
///         min(T, R) tokens once more.
class RingBufferCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and `spare`, k, is at least 0. A window
  /// above the context is the context.
  RingBufferCache(const ModelShape& shape, int64_t window, int64_t spare = 0);

  /// keys, values [B, H, S, D], as they lie in the slots, a staged chunk behind them; visible bool [T, S], undefined
  /// where one query sees all S keys. S = min(P + T, R), for a staged chunk min(P, R) + T.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  /// Any number while nothing has been overwritten; then k + 1, less one for each slot that is empty since its token
  /// was taken back or an abandoned forward wrote over it.
  int64_t can_give_back(int64_t row = 0) const override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< R of them once the buffers are made
  std::vector<int64_t> columns(int64_t row = 0) const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< stores a staged chunk
  void on_abandon() override;
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  int64_t slot_of(int64_t position) const { return position % slots_; }
  void store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const;
  void allocate();
  void close();
  void release();

  int64_t window_, slots_;          // W, R
  std::vector<int64_t> positions_;  // R: of the committed token in each slot, kEmptySlot where there is none
  torch::Tensor keys_, values_;     // [L, B, H, R, D], undefined before the first update

  // Of the open forward:
  bool stages_ = false;
  std::vector<int64_t> columns_;
  torch::Tensor visible_;
  std::vector<torch::Tensor> staged_keys_, staged_values_;  // a layer each, [B, H, S, D]
};

}  // namespace kvbook

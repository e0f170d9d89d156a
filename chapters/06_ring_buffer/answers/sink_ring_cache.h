// Exercise 6.2: attention sinks in slots of their own, and a ring for the others.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// `columns`: the position of the key in each of S columns, in any order, kEmptySlot where there is none. Row i is the
/// query at position P + i, and sees column j if columns[j] <= P + i, and columns[j] < sinks or columns[j] > P + i - W.
/// bool [T, S].
torch::Tensor sink_ring_mask(const std::vector<int64_t>& columns, int64_t P, int64_t T, int64_t sinks, int64_t W,
                             torch::Device device);

/// The first s tokens in slots 0 to s - 1, which nothing overwrites, and the last W of the others in a ring behind
/// them. A query sees the sinks and the last W tokens, itself included. s = 0 is chapter 6's ring with no slot to
/// spare. Memory: 2·L·B·H·(s + W)·D·sizeof(dtype), at the first update. A chunk that does not fit the free slots is
/// staged
///         until commit: 2·L·B·H·(min(P, s + W) + T)·D·sizeof(dtype) more.
/// Time:   a decode step copies its own token. A staged chunk copies what is held, itself, and the sinks among it and
///         its last min(T, W) tokens once more.
class SinkRingCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and sinks at least 0. More sinks or a wider
  /// window than the context are the context.
  SinkRingCache(const ModelShape& shape, int64_t sinks, int64_t window);

  /// keys, values [B, H, S, D], as they lie in the slots, a staged chunk behind them; visible bool [T, S], undefined
  /// where one query sees all S keys. S = min(P + T, s + W), for a staged chunk min(P, s + W) + T.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  /// Any number while nothing has been overwritten; then 1, and 0 where a token was taken back or a forward of one
  /// token was abandoned, until the next commit.
  int64_t can_give_back(int64_t row = 0) const override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< s + W of them once the buffers are made
  std::vector<int64_t> columns(int64_t row = 0) const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< stores a staged chunk
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  int64_t slot_of(int64_t position) const;
  int64_t slot_count() const { return sinks_ + window_; }
  std::vector<int64_t> positions() const;  // s + W: the committed position in each slot
  void store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const;
  void allocate();
  void close();
  void release();

  int64_t sinks_, window_;  // s, W
  int64_t oldest_;          // held are the sinks, and positions oldest_ to length() - 1; s until one is overwritten
  torch::Tensor keys_, values_;  // [L, B, H, s + W, D], undefined before the first update

  // Of the open forward:
  bool stages_ = false;
  std::vector<int64_t> columns_;
  torch::Tensor visible_;
  std::vector<torch::Tensor> staged_keys_, staged_values_;  // a layer each, [B, H, S, D]
};

}  // namespace kvbook

// Exercise 5.1: the first tokens stay, and the last W beside them (attention sinks).
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// `key_positions` int64 [S], ascending; queries at positions P to P + T - 1. A query at position p sees the keys at
/// the first `sinks` positions and the last W up to its own: j <= p, and j < sinks or j > p - W. bool [T, S].
torch::Tensor sink_mask(const torch::Tensor& key_positions, int64_t P, int64_t T, int64_t sinks, int64_t W);

/// Growing tensors cut back after every forward to the first `sinks` tokens and the last W - 1; every token keeps the
/// position that it had. `sinks` = 0 is chapter 5's window.
/// Memory: 2·L·B·H·min(P, sinks + W - 1)·D·sizeof(dtype); during a forward also its old and new keys joined.
/// Time:   update() copies all old and new tokens of its layer, commit() what is kept of all layers.
class SinkCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and sinks at least 0.
  SinkCache(const ModelShape& shape, int64_t sinks, int64_t window);

  /// keys, values [B, H, S, D] with S what is held and T; visible bool [T, S], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< one a token held: sinks first, then the window

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< evicts what is neither a sink nor in the window
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  using Layers = std::vector<torch::Tensor>;  // [B, H, S, D] each
  /// Does the query at position `query` see the key at this earlier position?
  bool sees(int64_t query, int64_t position) const { return position < sinks_ || position > query - window_; }

  void forget_joined();

  int64_t sinks_, window_;
  Layers keys_, values_;                // what is committed
  Layers joined_keys_, joined_values_;  // and the open forward's tokens behind it
  std::vector<int64_t> joined_positions_;
  torch::Tensor visible_;
};

}  // namespace kvbook

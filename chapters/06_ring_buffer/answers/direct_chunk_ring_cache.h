// Exercise 6.1: chapter 6's ring, and a chunk that overwrites nothing its queries see is not staged.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 6's ring: R = W + k slots, position p in slot p mod R. A chunk of T <= k + 1 tokens takes the places of
/// tokens that not even its first query sees, so it is written in place, as a single token is.
/// Memory: 2·L·B·H·R·D·sizeof(dtype), at the first update. A longer chunk that does not fit the free slots is staged
///         until commit, as in chapter 6: 2·L·B·H·(min(P, R) + T)·D·sizeof(dtype) more.
/// Time:   update() copies T tokens. A staged chunk copies what is held, itself, and its last min(T, R) tokens once
///         more.
class DirectChunkRingCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and `spare`, k, is at least 0. A window
  /// above the context is the context.
  DirectChunkRingCache(const ModelShape& shape, int64_t window, int64_t spare);

  /// keys, values [B, H, S, D], as they lie in the slots, a staged chunk behind them; visible bool [T, S], undefined
  /// where one query sees all S keys. S = min(P + T, R), for a staged chunk min(P, R) + T.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  /// Any number while nothing has been overwritten; then k + 1, less one for each slot that is empty since its token
  /// was taken back or abandoned. (An abandoned chunk that was staged empties none.)
  int64_t can_give_back(int64_t row = 0) const override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< R of them once the buffers are made
  std::vector<int64_t> columns(int64_t row = 0) const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< stores a staged chunk
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  int64_t slot_of(int64_t position) const { return position % slots_; }
  std::vector<int64_t> positions() const;  // R: the committed position in each slot
  void store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const;
  void allocate();
  void close();
  void release();

  int64_t window_, slots_;       // W, R
  int64_t oldest_ = 0;           // positions oldest_ to length() - 1 lie in their slots; those before are gone
  torch::Tensor keys_, values_;  // [L, B, H, R, D], undefined before the first update

  // Of the open forward:
  bool stages_ = false;
  std::vector<int64_t> columns_;
  torch::Tensor visible_;
  std::vector<torch::Tensor> staged_keys_, staged_values_;  // a layer each, [B, H, S, D]
};

}  // namespace kvbook

// Chapter 10: a window a layer; one counter of positions, layers of different sizes.
#pragma once

#include "chapters/06_ring_buffer/ring.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Layer l keeps the last W_l tokens in a ring of W_l slots, [B, H, W_l, D] each for keys and values; a full layer is a
/// window of the context, whose ring never goes round. Layers of the same window lie in the same ring: it is decided
/// once a forward where their tokens go, and they share a mask.
/// Memory: 2·B·H·D·sizeof(dtype)·(W_0 + ... + W_{L-1}), at the first update. In a layer whose free slots a chunk of two
///         or more tokens goes over, it is staged until commit: 2·B·H·(min(P, W_l) + T)·D·sizeof(dtype) more for each.
/// Time:   as chapter 6, a layer at a time. Masks: one for each of the different windows.
class LayerWindowsCache final : public KVCache {
 public:
  /// `windows`: a layer each; 0, or at least the context: a full layer. Empty: all are full.
  /// @throws c10::ValueError unless every size is positive, no window is negative, and there is one for each layer.
  LayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows);

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;  ///< as Ring::update
  void reset() override;
  int64_t can_give_back(int64_t row = 0) const override;  ///< as many as every layer can
  int64_t bytes() const override;

  int64_t same_slots_as(int64_t layer) const override;
  std::vector<int64_t> layer_slots(int64_t layer, int64_t row = 0) const override;
  std::vector<int64_t> layer_columns(int64_t layer, int64_t row = 0) const override;
  std::vector<int64_t> slots(int64_t row = 0) const override { return layer_slots(0, row); }
  std::vector<int64_t> columns(int64_t row = 0) const override { return layer_columns(0, row); }

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError past the context, if a layer is full
  void on_commit() override;
  void on_abandon() override;
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  const Ring& ring_of(int64_t layer) const { return rings_[which_[layer]]; }
  void allocate();
  void release();

  std::vector<Ring> rings_;        // one for each of the different windows
  std::vector<size_t> which_;      // a layer each: the ring that it lies in
  std::vector<RingLayer> layers_;  // L, once the first key has come
};

}  // namespace kvbook

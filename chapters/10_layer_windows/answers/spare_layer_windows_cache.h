// Exercise 10.2: slots to spare in the layers that have a window.
#pragma once

#include "chapters/10_layer_windows/answers/layer_rings.h"

namespace kvbook {

// ANCHOR: contract
/// LayerWindowsCache whose windowed layers have k slots more, so that k + 1 tokens can be taken back once every window
/// has gone round. A full layer keeps everything and has none to spare.
/// Memory: 2·B·H·D·sizeof(dtype) for each slot, at the first update: W_l + k slots in a windowed layer, the context in
/// a
///         full one. A chunk that goes over a layer's free slots is staged there until commit, as in the chapter.
/// Time:   as the chapter. Attention of a windowed layer reads W_l + k keys, of which a single token sees W_l.
class SpareLayerWindowsCache final : public KVCache {
 public:
  /// As LayerWindowsCache. @throws c10::ValueError as there, and if `spare`, k, is negative.
  SpareLayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows, int64_t spare);

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;  ///< as Ring::update
  void reset() override;
  int64_t can_give_back(int64_t row = 0) const override;
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
  void allocate();
  void release();

  LayerRings rings_;
  std::vector<RingLayer> layers_;  // L, once the first key has come
};

}  // namespace kvbook

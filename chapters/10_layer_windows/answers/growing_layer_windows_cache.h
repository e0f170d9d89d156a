// Exercise 10.3: full layers that grow by doubling, beside rings that keep their size.
#pragma once

#include "chapters/10_layer_windows/answers/layer_rings.h"

namespace kvbook {

// ANCHOR: contract
/// LayerWindowsCache whose full layers have `first` slots at first, and twice as many whenever they are full, up to the
/// context. A windowed layer is a ring of W_l slots from its first token on.
/// Memory: 2·B·H·D·sizeof(dtype) for each slot: W_l slots in a windowed layer, full_layer_slots(n) in a full one, n
///         being the most tokens held since reset(). In a forward that grows, a full layer's old buffer is there, too.
/// Time:   as the chapter; in a forward that grows each full layer also copies the P tokens before.
class GrowingLayerWindowsCache final : public KVCache {
 public:
  /// As LayerWindowsCache. @throws c10::ValueError as there, and unless `first` is positive.
  GrowingLayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows, int64_t first);

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;  ///< as Ring::update
  void reset() override;
  int64_t can_give_back(int64_t row = 0) const override;
  int64_t bytes() const override;
  int64_t full_layer_slots(
      int64_t tokens) const;  ///< the least of first, 2·first, ... that holds them, and the context

  int64_t same_slots_as(int64_t layer) const override;
  std::vector<int64_t> layer_slots(int64_t layer, int64_t row = 0) const override;  ///< as many as there are by now
  std::vector<int64_t> layer_columns(int64_t layer, int64_t row = 0) const override;
  std::vector<int64_t> slots(int64_t row = 0) const override { return layer_slots(0, row); }
  std::vector<int64_t> columns(int64_t row = 0) const override { return layer_columns(0, row); }

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError past the context, if a layer is full
  void on_commit() override;                 ///< lets the old buffers go
  void on_abandon() override;                ///< takes them back
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  RingLayer buffers(int64_t slots) const;
  void allocate();
  void grow(int64_t layer);
  void release();

  int64_t first_;
  LayerRings rings_;
  std::vector<RingLayer> layers_;  // L, once the first key has come
  std::vector<RingLayer> before_;  // L: of the full layers that have grown in the open forward
};

}  // namespace kvbook

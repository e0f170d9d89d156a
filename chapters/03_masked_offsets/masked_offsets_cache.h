// Chapter 3: a chunk of any length on a cache of any length, because the mask knows the offset.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Growing cache, as in chapter 2, for chunks of any length at any time.
/// Memory: 2·L·B·H·P·D·sizeof(dtype); during an update the old and the new tensor of one layer exist together. After an
///         abandoned forward the layers that had grown keep their longer memory until the next update.
/// Time:   update() copies all P + T tokens of its layer, so n tokens copy n²/2.
class MaskedOffsetsCache final : public KVCache {
 public:
  explicit MaskedOffsetsCache(const ModelShape& shape);

  /// keys, values [B, H, P + T, D]; visible bool [T, P + T], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;

 protected:
  void on_begin(const Step& step) override;  ///< makes the step's mask, once for all layers
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  std::vector<torch::Tensor> keys_, values_;  // a layer each: [B, H, P, D]
  torch::Tensor visible_;                     // of the open forward
};

}  // namespace kvbook

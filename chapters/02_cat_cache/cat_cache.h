// Chapter 2: remember every key and value with torch::cat, feed one token.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Growing cache: keys and values of each layer in one tensor that is replaced by a longer one.
/// Memory: 2·L·B·H·P·D·sizeof(dtype); during an update the old and the new tensor of one layer exist together. After an
///         abandoned forward the layers that had grown keep their longer memory until the next update.
/// Time:   update() copies all P + T tokens of its layer, so n tokens copy n²/2.
/// Limit:  takes one token at a time once it holds some.
class CatCache final : public KVCache {
 public:
  explicit CatCache(const ModelShape& shape);

  /// keys, values [B, H, P + T, D]; visible bool [T, T] on an empty cache with T > 1, else undefined.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::ValueError if P > 0 and T > 1
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  std::vector<torch::Tensor> keys_, values_;  // a layer each: [B, H, P, D]
};

}  // namespace kvbook

// Exercise 2.1: keys and values of a layer in one tensor, one cat instead of two.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 2's cache with one tensor a layer, [2, B, H, P, D]: keys in front, values behind.
/// Memory: as chapter 2; during an update also the new tokens' pair once more, 2·B·H·T·D·sizeof(dtype).
/// Time:   as chapter 2, in half as many calls of cat.
/// Limit:  takes one token at a time once it holds some.
class JointCatCache final : public KVCache {
 public:
  explicit JointCatCache(const ModelShape& shape);

  /// keys, values [B, H, P + T, D], views of one tensor; visible as in chapter 2.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::ValueError if P > 0 and T > 1
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  std::vector<torch::Tensor> pairs_;  // a layer each: [2, B, H, P, D]
};

}  // namespace kvbook

// Chapter 9: keys and values in 8 bits, each token by itself.
#pragma once

#include "common/key_value_ranges.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 4's buffers with codes in them. A token is quantized when it comes, once, and attention sees what its codes
/// give back, in its own forward too: so codes do not depend on where a prompt was cut. Scales are one a token and
/// head, taken from it, or one a channel, measured before (calibration.h): what is greater then is cut off.
///
/// Memory: 2·L·B·H·C·(D + 4) bytes with a scale a token, 2·L·H·(B·C·D + 4·D) with one a channel. During an update one
///         layer's keys and values in full besides, twice while they are made.
///
/// Time: update() turns all P + T tokens of its layer back into numbers, 2·B·H·(P + T)·D of them.
class Int8Cache final : public KVCache {
 public:
  /// `fixed`: of each channel, not negative, or undefined for a scale a token. A channel whose range is 0 stays 0.
  /// @throws c10::ValueError if the ranges are of another shape than the model's.
  explicit Int8Cache(const ModelShape& shape, const KeyValueRanges& fixed = {});

  /// keys, values [B, H, P + T, D] in the dtype of the first key; visible as chapter 4's.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;                              ///< codes and scales
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< one for each position of the context

 protected:
  void on_begin(const Step& step) override;
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  struct Side {            // keys or values
    torch::Tensor codes;   // int8 [L, B, H, C, D], undefined before the first update
    torch::Tensor scales;  // float32 [L, B, H, C, 1], or [L, 1, H, 1, D] where they are fixed
  };
  torch::Tensor stored(Side& side, int64_t layer, const torch::Tensor& fresh);
  void make(Side& side, const torch::Tensor& range) const;
  void release();

  KeyValueRanges fixed_;
  Side keys_, values_;
  torch::Tensor visible_;  // of the open forward
};

}  // namespace kvbook

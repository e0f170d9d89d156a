// Exercise 9.2: keys and values with a kind of scale each.
#pragma once

#include "common/key_value_ranges.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: experiment
enum class ScaleOf { kToken, kChannel };  ///< its greatest number is code 127
enum class OutlierAt { kKeysChannel, kKeysToken, kValuesChannel, kValuesToken };

/// Means over 256 queries: of all errors of the attention weights together, whose sum is 1, and of the greatest error
/// of the attention's output (a share of its length would be a share of the outlier).
struct TwoSidedErrors {
  double weights = 0, output = 0;
};

/// 16 keys and values with D = 64, drawn from ±0.3. Channel 0 of all tokens, or all channels of token 0, are 100: of
/// the keys or of the values. Queries 3·N(0, 1). Keys and values are both rounded to 8 bits. The same numbers are drawn
/// each time. float64. Memory, time: some thousand numbers.
TwoSidedErrors two_sided_errors(OutlierAt outlier, ScaleOf keys, ScaleOf values);
// ANCHOR_END: experiment

// ANCHOR: contract
/// Int8Cache with a kind of scale for each side: one a channel where its range is given, else one a token.
/// Memory: for each side L·B·H·C·(D + 4) bytes with a scale a token, L·H·(B·C·D + 4·D) with one a channel.
/// Time:   as Int8Cache: update() turns all P + T tokens of its layer back into numbers.
class TwoSidedCache final : public KVCache {
 public:
  /// `fixed`: [L, H, D] of keys, of values, of both or of neither.
  /// @throws c10::ValueError if a range that is given is of another shape than the model's.
  TwoSidedCache(const ModelShape& shape, const KeyValueRanges& fixed);

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
  struct Side {
    torch::Tensor range = {};   // [L, H, D], or undefined: a scale a token
    torch::Tensor codes = {};   // int8 [L, B, H, C, D], undefined before the first update
    torch::Tensor scales = {};  // float32 [L, B, H, C, 1], or [L, 1, H, 1, D] where the range is given
  };
  torch::Tensor stored(Side& side, int64_t layer, const torch::Tensor& fresh);
  void make(Side& side) const;
  void release();

  Side keys_, values_;
  torch::Tensor visible_;  // of the open forward
};

}  // namespace kvbook

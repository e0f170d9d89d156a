// Exercise 9.1: keys and values in 4 bits, a group of tokens at a time.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: pack
/// Two codes a byte: int8 [..., D], each from -7 to 7, -> uint8 [..., ⌈D / 2⌉]. Code 2i of a row is the lower half of
/// byte i, code 2i + 1 the upper one. Where D is odd, a code 0 is added at the end. Memory, time: O(codes).
/// @throws c10::ValueError unless codes is int8 with at least one axis, and every code between -7 and 7.
torch::Tensor pack_codes(const torch::Tensor& codes);

/// The codes again: uint8 [..., ⌈D / 2⌉] -> int8 [..., D].
/// @throws c10::ValueError unless bytes is uint8 with ⌈D / 2⌉ of them in its last axis.
torch::Tensor unpack_codes(const torch::Tensor& bytes, int64_t D);
// ANCHOR_END: pack

// ANCHOR: contract
/// GroupedInt8Cache with codes from -7 to 7, two in a byte: the same groups, scales a channel and group, the open group
/// as it came, and the same columns and mask (grouped_mask). A head of odd size wastes half a byte a token.
/// Memory: 2·L·B·H·C·⌈D / 2⌉ bytes for codes, 4 bytes for each channel and group, and up to N - 1 tokens in their own
/// dtype.
/// Time:   update() unpacks the full groups of its layer, turns them back into numbers and copies the open one.
class Int4Cache final : public KVCache {
 public:
  /// @throws c10::ValueError unless a group has at least 1 token.
  Int4Cache(const ModelShape& shape, int64_t group);

  /// keys, values [B, H, S, D], as GroupedInt8Cache's.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;                                ///< codes, scales and the open group
  int64_t can_give_back(int64_t row = 0) const override;         ///< the tokens of the open group
  std::vector<int64_t> slots(int64_t row = 0) const override;    ///< those of the codes, then the open group's
  std::vector<int64_t> columns(int64_t row = 0) const override;  ///< a position may be there twice

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;
  void on_abandon() override;
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  struct Side {            // keys or values
    torch::Tensor codes;   // uint8 [L, B, H, groups · N, ⌈D / 2⌉], undefined before the first update
    torch::Tensor scales;  // float32 [L, B, H, groups, D]
    std::vector<torch::Tensor> open, staged;  // a layer each: [B, H, under N, D]; staged: after this forward
  };
  torch::Tensor stored(Side& side, int64_t layer, const torch::Tensor& fresh);
  void make(Side& side) const;
  void drop_staged();
  void release();
  int64_t full(int64_t tokens) const { return tokens / group_ * group_; }  ///< those in full groups

  int64_t group_;  // N
  Side keys_, values_;
  torch::Tensor visible_;  // of the open forward
};

}  // namespace kvbook

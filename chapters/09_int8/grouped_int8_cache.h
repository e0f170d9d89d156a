// Keys and values in 8 bits, a group of tokens at a time.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Scales of each channel, taken from N tokens: positions 0 to N - 1 share theirs, N to 2N - 1, and so on, wherever
/// forwards begin and end. The group that is not full yet stays as it came. A query sees its own group as it came, and
/// the groups before it as their codes say; in a forward of several tokens one key may be there in both forms, for
/// other queries. Where N is above the context nothing is ever rounded.
///
/// Memory: 2·L·B·H·D bytes for each of the N·⌊C / N⌋ tokens that full groups can have, four times that for each group,
///         and the open group in its own dtype, twice in an open forward. During an update one layer in full besides,
///         up to three times.
///
/// Time: update() turns the full groups of its layer back into numbers and copies the open one.
class GroupedInt8Cache final : public KVCache {
 public:
  /// @throws c10::ValueError unless a group has at least 1 token.
  GroupedInt8Cache(const ModelShape& shape, int64_t group);

  /// keys, values [B, H, S, D]: first the groups before the last token's, then from the beginning of the group that was
  /// open, the new tokens included, as they came. S = P + T where T = 1; a group that becomes full in this forward, and
  /// is not its last one, is there twice.
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
  struct Side {                               // keys or values
    torch::Tensor codes;                      // int8 [L, B, H, groups · N, D], undefined before the first update
    torch::Tensor scales;                     // float32 [L, B, H, groups, D]
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

/// P committed tokens, then T new ones, in groups of N. The columns are those of GroupedInt8Cache: first the positions
/// before the last token's group, in codes, then those from the beginning of position P's group on, as they came.
/// bool [T, columns].
torch::Tensor grouped_mask(int64_t P, int64_t T, int64_t N, torch::Device device);

}  // namespace kvbook

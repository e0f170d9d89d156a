// Exercise 9.3: the trap. Codes are turned back and rounded again whenever a greater number comes.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// One scale a channel for all tokens so far. A greater number enlarges it, and all codes of the channel are made anew,
/// from what the old ones say. The scale of a channel that has no greater number stays, and so do its codes. Where a
/// prompt is cut changes what is held: a chunk enlarges the scale once, its tokens one by one may do it often. Not for
/// use: an answer to an exercise.
/// Memory: 2·L·B·H·(P·D + 4·D) bytes; twice that while a forward is open.
/// Time:   update() turns all P tokens of its layer back into numbers, and rounds them again: 2·B·H·(P + T)·D.
class RequantizingCache final : public KVCache {
 public:
  explicit RequantizingCache(const ModelShape& shape);

  /// keys, values [B, H, P + T, D] in the dtype of the first key, as their new codes say; visible as chapter 4's.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;                                          ///< codes and scales
  int64_t can_give_back(int64_t /*row*/ = 0) const override { return 0; }  ///< a scale does not become small again

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  struct Held {
    torch::Tensor codes;   // int8 [B, H, P, D], undefined before the first commit
    torch::Tensor scales;  // float32 [B, H, 1, D]
  };
  struct Side {
    std::vector<Held> now, staged;  // a layer each; staged: after this forward
  };
  torch::Tensor stored(Side& side, int64_t layer, const torch::Tensor& fresh);

  Side keys_, values_;
  torch::Tensor visible_;  // of the open forward
};

}  // namespace kvbook

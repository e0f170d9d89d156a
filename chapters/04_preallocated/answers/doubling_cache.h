// Exercise 4.2: buffers that double when they are full.
#pragma once

#include <optional>

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 4's cache without a capacity to choose: `first` slots at first, twice as many whenever they are full.
/// Memory: 2·L·B·H·C·D·sizeof(dtype) with C = doubled_slots(P, first), less than twice what is used; in a forward that
///         grows the old buffers and the new ones exist together.
/// Time:   update() copies T tokens; the first update of a forward that grows copies P tokens of every layer before.
class DoublingCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size is positive.
  DoublingCache(const ModelShape& shape, int64_t first);

  /// Views of the buffers: keys, values [B, H, P + T, D]; visible bool [T, P + T], undefined when T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;   ///< lets the old buffers go
  void on_abandon() override;  ///< takes them back

  // ANCHOR_END: contract

 private:
  struct Buffers {
    torch::Tensor keys, values;  // [L, B, H, C, D]
    int64_t slots() const;       // C; 0 before there are any
  };
  Buffers with_slots(int64_t slots) const;

  int64_t first_;
  Buffers now_;
  std::optional<Buffers> before_;  // of an open forward that grew
  torch::Tensor visible_;
};

// ANCHOR: cost
/// The smallest of first, 2·first, 4·first, ... that holds `tokens`.
int64_t doubled_slots(int64_t tokens, int64_t first);

/// Tokens that growing has copied, in all, when `tokens` were fed one by one: first + 2·first + ... up to half of the
/// slots there are. Less than twice `tokens`.
int64_t tokens_copied_by_growing(int64_t tokens, int64_t first);
// ANCHOR_END: cost

}  // namespace kvbook

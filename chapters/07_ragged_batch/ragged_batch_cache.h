// Chapter 7: every row has a length of its own.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Chapter 4's buffers, [L, rows, H, C, D], with a length for each row: row r's tokens lie in slots 0 to length(r) - 1.
/// A step may be about some of the rows only, and bring each another number of tokens. Padding is never stored.
/// Memory: 2·L·rows·H·C·D·sizeof(dtype), at the first update, however short the rows are.
/// Time:   update() copies the step's tokens. Where its rows are not neighbours, in order, it also gathers all that
///         attention sees, 2·B·H·S·D values a layer.
class RaggedBatchCache final : public KVCache {
 public:
  /// `rows` 0: as many as the first step has. @throws c10::ValueError unless every size and the capacity are positive.
  RaggedBatchCache(const ModelShape& shape, int64_t capacity, int64_t rows = 0);

  /// keys, values [B, H, S, D] with S the longest of the step's rows, new tokens included; visible bool [B, 1, T, S],
  /// undefined where T == 1 and all of them are as long as S.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;    ///< C of them once the buffers are made
  std::vector<int64_t> columns(int64_t row = 0) const override;  ///< S of them, in rows of the open forward

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError if a row would pass the capacity
  void on_abandon() override;
  void on_truncate() override {}  ///< what lies past length(row) is overwritten one day; the buffers stay until reset()
                                  // ANCHOR_END: contract

 private:
  void release();
  torch::Tensor seen(const torch::Tensor& slots) const;

  int64_t capacity_;             // C
  torch::Tensor keys_, values_;  // [L, rows, H, C, D], undefined before the first update

  // Of the open forward:
  bool pad_left_ = false;
  int64_t longest_ = 0;    // S
  torch::Tensor gather_;   // int64 [B]: its rows, undefined where they are neighbours in order
  torch::Tensor visible_;  // [B, 1, T, S]
};

}  // namespace kvbook

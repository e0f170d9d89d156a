// Chapter 8: keys lie in pages, wherever there is room.
#pragma once

#include <memory>

#include "chapters/08_paged/block_tables.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Keys and values in a pool of pages of `page` tokens each; block tables say which pages hold which row, see
/// block_tables.h. Rows, lengths and padding are chapter 7's.
/// Memory: 2·L·H·pool pages·page·D·sizeof(dtype), at the first update, however many pages are used.
/// Time:   update() copies the step's tokens, and gathers the pages of its rows: 2·B·H·S·D values a layer, with S
///         rounded up to whole pages. Up to a page more for every row that writes to a shared one.
class PagedCache final : public KVCache {
 public:
  /// `pool_pages` 0: so many that every row can reach the context. `rows` 0: as many as the first step has.
  /// @throws c10::ValueError unless page is at least 1, neither of the others is negative, and all slots can be
  /// counted.
  PagedCache(const ModelShape& shape, int64_t page, int64_t pool_pages = 0, int64_t rows = 0);

  /// keys, values [B, H, S, D] with S the longest of the step's rows, new tokens included; visible bool [B, 1, T, S],
  /// undefined where T == 1 and all of them are as long as S.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;  ///< the pages that are cached are forgotten too
  int64_t bytes() const override;
  bool binds_nothing() const override;                           ///< no page is used or cached
  std::vector<int64_t> slots(int64_t row = 0) const override;    ///< of its pages, in the order of its block table
  std::vector<int64_t> columns(int64_t row = 0) const override;  ///< S of them, in rows of the open forward

  /// Row `to` holds what row `from` holds: its pages are shared, and no key is copied before one of the two writes to
  /// them. Abandons an open forward. @throws c10::IndexError if a row is not there or `to` is not empty.
  void fork(int64_t from, int64_t to);

  /// For looking at it. @throws c10::Error before the first forward.
  const BlockTables& tables() const;

 protected:
  void on_begin(const Step& step) override;  ///< @throws OutOfPages if the pool is short; nothing is reserved then
  void on_commit() override;
  void on_abandon() override;
  void on_truncate() override;
  int64_t on_adopt(int64_t row, const std::vector<int64_t>& prompt) override;
  // ANCHOR_END: contract

 private:
  void make_tables();
  torch::Tensor gathered_pages(torch::TensorOptions where) const;
  void release();
  void copy_shared(const torch::Tensor& slots) const;
  void store(const torch::Tensor& slots, const torch::Tensor& fresh) const;
  torch::Tensor seen(const torch::Tensor& slots) const;

  int64_t page_, pool_pages_;
  std::unique_ptr<BlockTables> tables_;  // made by the first forward
  torch::Tensor keys_, values_;          // [L, H, pool pages · page, D], undefined before the first update

  // Of the open forward:
  bool pad_left_ = false;
  int64_t longest_ = 0;    // S
  torch::Tensor gather_;   // int64 [B · pages of the longest row]
  torch::Tensor visible_;  // [B, 1, T, S]
};

}  // namespace kvbook

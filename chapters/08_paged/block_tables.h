// Which pages hold a sequence, and how a forward gets more of them. Numbers only, as in page_pool.h.
#pragma once

#include "chapters/08_paged/page_pool.h"

namespace kvbook {

// ANCHOR: contract
/// How many pages of so many slots hold these tokens.
inline int64_t pages_for_tokens(int64_t tokens, int64_t page) { return tokens / page + (tokens % page > 0 ? 1 : 0); }

/// A block table a row: the pages that hold its tokens, in order. Position p lies in slot p mod page of page p / page
/// of the table. Pages may stand in several tables; one that does, or that is published, is copied before it is
/// written. Memory: 8 bytes a token and a page. Time: begin() and commit() are O(new tokens + pages of the step's
/// rows).
class BlockTables {
 public:
  /// @throws c10::ValueError unless rows, page and pool_pages are at least 1.
  BlockTables(int64_t rows, int64_t page, int64_t pool_pages);

  struct Append {
    int64_t row;
    std::vector<int64_t> tokens;
  };
  struct Copy {
    int64_t from, to;  // pages
    int64_t tokens;    // of the page that count
  };

  /// Reserves pages for what is appended, each row named once. Between this and commit() or abandon() the tables have
  /// room for the new tokens, lengths are the old ones, and rows may not be truncated, forked or given anything to
  /// adopt.
  /// @throws OutOfPages, and nothing has changed.
  void begin(std::vector<Append> appends);
  void commit();   ///< the new tokens count; pages that are full now are published
  void abandon();  ///< the tables are as before begin(); pages that were evicted for it are not cached again
  const std::vector<Copy>& copies() const { return copies_; }  ///< to be made before anything is written

  void truncate(int64_t row, int64_t length);  ///< to at most length(row); gives back pages, those at the end first
  void fork(int64_t from, int64_t to);         ///< `to`, which is empty, shares all pages of `from`
  /// An empty row takes over the published pages that begin `prompt`, whole ones and at most all tokens but the last.
  /// Returns the number of tokens.
  int64_t adopt(int64_t row, const std::vector<int64_t>& prompt);

  int64_t slot(int64_t row, int64_t position) const;  ///< in the pool: page number · page + place in it
  const std::vector<int64_t>& pages(int64_t row) const { return sequences_[row].pages; }
  int64_t length(int64_t row) const { return static_cast<int64_t>(sequences_[row].tokens.size()); }
  int64_t pages_for(int64_t tokens) const { return pages_for_tokens(tokens, page_); }
  int64_t page_tokens() const { return page_; }
  const PagePool& pool() const { return pool_; }
  // ANCHOR_END: contract

 private:
  struct Sequence {
    std::vector<int64_t> pages, tokens;
  };
  bool writes_to_shared(const Append& append) const;
  void drop_pages(Sequence& sequence, int64_t length);
  void check_room(const std::vector<Append>& appends) const;
  void reserve(const Append& append);
  void publish_full_pages(Sequence& sequence, int64_t first);
  std::vector<int64_t> tokens_of_page(const std::vector<int64_t>& tokens, int64_t index) const;

  int64_t page_;
  PagePool pool_;
  std::vector<Sequence> sequences_;  // a row each
  // Between begin() and commit() or abandon():
  std::vector<Append> appends_;
  std::vector<Copy> copies_;
};

}  // namespace kvbook

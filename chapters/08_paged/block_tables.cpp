#include "chapters/08_paged/block_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/out_of_pages.h"

namespace kvbook {

BlockTables::BlockTables(int64_t rows, int64_t page, int64_t pool_pages) : page_(page), pool_(pool_pages) {
  TORCH_CHECK_VALUE(rows >= 1 && page >= 1, "there are at least 1 row and 1 token a page, not ", rows, " and ", page);
  sequences_.resize(rows);
}

// ANCHOR: reserve
void BlockTables::begin(std::vector<Append> appends) {
  abandon();
  check_room(appends);
  appends_ = std::move(appends);
  for (const Append& append : appends_) reserve(append);
}

/// The first new token goes into a page that is there already, and not to be written.
bool BlockTables::writes_to_shared(const Append& append) const {
  const int64_t P = length(append.row);
  return !append.tokens.empty() && P % page_ > 0 && !pool_.is_writable(pages(append.row).back());
}

void BlockTables::check_room(const std::vector<Append>& appends) const {
  int64_t wanted = 0;
  for (const Append& append : appends) {
    const auto held = static_cast<int64_t>(pages(append.row).size()), n = static_cast<int64_t>(append.tokens.size());
    wanted += pages_for(length(append.row) + n) - held + (writes_to_shared(append) ? 1 : 0);
  }
  if (wanted <= pool_.available()) return;
  throw OutOfPages({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                   fmt::format("this step needs {} pages of {} tokens and {} of {} are free: give the pool more pages, "
                               "or truncate a row that can wait",
                               wanted, page_, pool_.available(), pool_.pages()));
}

void BlockTables::reserve(const Append& append) {
  std::vector<int64_t>& pages = sequences_[append.row].pages;
  const int64_t P = length(append.row), n = static_cast<int64_t>(append.tokens.size());
  if (writes_to_shared(append)) {  // the shared page keeps this reference until commit: abandon() puts it back
    copies_.push_back({.from = pages.back(), .to = pool_.take(), .tokens = P % page_});
    pages.back() = copies_.back().to;
  }
  while (static_cast<int64_t>(pages.size()) < pages_for(P + n)) pages.push_back(pool_.take());
}

void BlockTables::abandon() {
  for (const Append& append : appends_) {
    drop_pages(sequences_[append.row], length(append.row));
    std::vector<int64_t>& pages = sequences_[append.row].pages;
    for (const Copy& copy : copies_) {
      if (pages.empty() || pages.back() != copy.to) continue;
      pool_.give_back(copy.to);
      pages.back() = copy.from;
    }
  }
  appends_.clear();
  copies_.clear();
}
// ANCHOR_END: reserve

// ANCHOR: commit
void BlockTables::commit() {
  for (const Copy& copy : copies_) pool_.give_back(copy.from);
  copies_.clear();
  for (const Append& append : appends_) {
    Sequence& sequence = sequences_[append.row];
    const int64_t first = length(append.row) / page_;  // the first page that may have become full
    sequence.tokens.insert(sequence.tokens.end(), append.tokens.begin(), append.tokens.end());
    publish_full_pages(sequence, first);
  }
  appends_.clear();
}

void BlockTables::publish_full_pages(Sequence& sequence, int64_t first) {
  const auto full = static_cast<int64_t>(sequence.tokens.size()) / page_;
  for (int64_t i = first; i < full; ++i) {
    const int64_t parent = i == 0 ? PagePool::kNoParent : sequence.pages[i - 1];
    pool_.publish(sequence.pages[i], parent, tokens_of_page(sequence.tokens, i));
  }
}

std::vector<int64_t> BlockTables::tokens_of_page(const std::vector<int64_t>& tokens, int64_t index) const {
  const auto first = tokens.begin() + index * page_;
  return {first, first + page_};
}
// ANCHOR_END: commit

// ANCHOR: share
void BlockTables::truncate(int64_t row, int64_t length) {
  TORCH_INTERNAL_ASSERT(appends_.empty() && length <= this->length(row), "a forward is open, or row ", row,
                        " is shorter");
  drop_pages(sequences_[row], length);
  sequences_[row].tokens.resize(length);
}

void BlockTables::drop_pages(Sequence& sequence, int64_t length) {
  while (static_cast<int64_t>(sequence.pages.size()) > pages_for(length)) {
    pool_.give_back(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

void BlockTables::fork(int64_t from, int64_t to) {
  TORCH_INTERNAL_ASSERT(appends_.empty() && pages(to).empty(), "a forward is open, or row ", to, " is not empty");
  sequences_[to] = sequences_[from];
  for (const int64_t page : pages(to)) pool_.share(page);
}

int64_t BlockTables::adopt(int64_t row, const std::vector<int64_t>& prompt) {
  TORCH_INTERNAL_ASSERT(appends_.empty() && pages(row).empty(), "a forward is open, or row ", row, " is not empty");
  Sequence& sequence = sequences_[row];
  const auto most = (static_cast<int64_t>(prompt.size()) - 1) / page_;  // somebody has to compute the last token
  int64_t parent = PagePool::kNoParent;
  for (int64_t i = 0; i < most; ++i) {
    const std::optional<int64_t> page = pool_.find(parent, tokens_of_page(prompt, i));
    if (!page) break;
    pool_.share(*page);
    sequence.pages.push_back(*page);
    parent = *page;
  }
  const auto adopted = static_cast<int64_t>(sequence.pages.size()) * page_;
  sequence.tokens.assign(prompt.begin(), prompt.begin() + adopted);
  return adopted;
}
// ANCHOR_END: share

int64_t BlockTables::slot(int64_t row, int64_t position) const {
  return pages(row)[position / page_] * page_ + position % page_;
}

}  // namespace kvbook

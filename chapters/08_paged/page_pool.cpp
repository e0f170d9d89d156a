#include "chapters/08_paged/page_pool.h"

#include <c10/util/Exception.h>

#include <tuple>

namespace kvbook {

PagePool::PagePool(int64_t pages) {
  TORCH_CHECK_VALUE(pages >= 1, "a pool has at least 1 page, not ", pages);
  pages_.resize(pages);
  for (int64_t page = pages - 1; page >= 0; --page) empty_.push_back(page);  // page 0 is taken first
}

// ANCHOR: take
int64_t PagePool::take() {
  TORCH_INTERNAL_ASSERT(available() > 0, "no page is empty or cached");
  int64_t page = 0;
  if (!empty_.empty()) {
    page = empty_.back();
    empty_.pop_back();
  } else {
    page = cached_.begin()->second;  // used longest ago
    cached_.erase(cached_.begin());
    published_.erase(pages_[page].name);  // before anything else is written there
    pages_[page].published = false;
  }
  pages_[page].references = 1;
  return page;
}

void PagePool::share(int64_t page) {
  if (references(page) == 0) {
    TORCH_INTERNAL_ASSERT(is_published(page), "page ", page, " is empty");
    cached_.erase(pages_[page].cached_at);
  }
  ++pages_[page].references;
}

void PagePool::give_back(int64_t page) {
  TORCH_INTERNAL_ASSERT(references(page) > 0, "page ", page, " was given back already");
  if (--pages_[page].references > 0) return;
  if (is_published(page)) {
    pages_[page].cached_at = now_++;
    cached_[pages_[page].cached_at] = page;
  } else {
    empty_.push_back(page);
  }
}
// ANCHOR_END: take

// ANCHOR: publish
std::optional<int64_t> PagePool::find(int64_t parent, const std::vector<int64_t>& tokens) const {
  const auto found = published_.find({parent, tokens});
  return found == published_.end() ? std::nullopt : std::optional(found->second);
}

void PagePool::publish(int64_t page, int64_t parent, const std::vector<int64_t>& tokens) {
  TORCH_INTERNAL_ASSERT(is_writable(page), "page ", page, " is shared, published or not used");
  if (parent != kNoParent && !is_published(parent)) return;
  std::tie(pages_[page].name, pages_[page].published) = published_.emplace(Name{parent, tokens}, page);
}
// ANCHOR_END: publish

}  // namespace kvbook

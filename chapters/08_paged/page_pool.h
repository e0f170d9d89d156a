// Who holds which page. Numbers only: the keys and values themselves lie elsewhere (paged_cache.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvbook {

// ANCHOR: contract
/// A fixed number of pages, each in one of three states: empty; used, by one or more block tables (its references); or
/// cached, which is used by nobody but kept, since its tokens are known and may be asked for again.
///
/// A page is published under its tokens and the page that comes before them. It is found only by both, compared in
/// full, and never written again. Whoever publishes a page holds its parent as well; so a parent has at least as many
/// references as each child, and if a table gives its pages back from its end on, children are evicted first.
/// Memory: about a hundred bytes a page, and the tokens of those that are published. Time: O(page · log pages) for each
/// of take, share, give_back, find and publish.
class PagePool {
 public:
  static constexpr int64_t kNoParent = -1;

  /// @throws c10::ValueError unless there is at least one page.
  explicit PagePool(int64_t pages);

  /// An empty page, or the one cached longest ago, which is forgotten. Its only reference is the caller's.
  /// Precondition: available() > 0.
  int64_t take();
  void share(int64_t page);      ///< one reference more. Precondition: the page is used or cached
  void give_back(int64_t page);  ///< one fewer; with none left it is cached if it is published, else empty

  /// The page that holds `tokens` behind `parent`, kNoParent for the first.
  std::optional<int64_t> find(int64_t parent, const std::vector<int64_t>& tokens) const;
  /// Makes a page known, unless another one has that name or the parent is not published itself. Precondition: the page
  /// is writable, and the caller holds its parent.
  void publish(int64_t page, int64_t parent, const std::vector<int64_t>& tokens);

  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t cached() const { return static_cast<int64_t>(cached_.size()); }
  int64_t available() const { return static_cast<int64_t>(empty_.size()) + cached(); }  ///< what take() can give
  int64_t used() const { return pages() - available(); }
  int64_t references(int64_t page) const { return pages_[page].references; }
  bool is_published(int64_t page) const { return pages_[page].published; }
  bool is_writable(int64_t page) const { return references(page) == 1 && !is_published(page); }
  // ANCHOR_END: contract

 private:
  using Name = std::pair<int64_t, std::vector<int64_t>>;  // parent, tokens
  struct Page {
    int64_t references = 0;
    std::map<Name, int64_t>::iterator name = {};  // its entry, where it is published
    bool published = false;
    int64_t cached_at = 0;
  };

  std::vector<Page> pages_;
  std::vector<int64_t> empty_;         // the last is taken next
  std::map<int64_t, int64_t> cached_;  // when -> page
  std::map<Name, int64_t> published_;
  int64_t now_ = 0;  // moves with every page that becomes cached
};

}  // namespace kvbook

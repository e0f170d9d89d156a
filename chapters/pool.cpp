// build/bin/pool: chapter 8's pool of pages, drawn after each of a few operations. No model: only the books are kept.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "chapters/08_paged/block_tables.h"
#include "common/cli.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kPage = 4, kPages = 6, kRows = 3;

/// What a page holds.
struct PageState {
  Numbers owners = {};  // rows
  int64_t tokens = 0;   // that count
  bool cached = false;
};

/// A scene in which every state of a page occurs. Rows are called A, B and C.
class Story {
 public:
  explicit Story(const std::function<void(const std::string&, const std::vector<PageState>&)>& tell) : tell_(tell) {}

  void run() {
    append(0, {1, 2, 3, 4, 5, 6}, "A is fed six tokens");
    tables_.fork(0, 1);
    tell("B forks A");
    append(0, {7}, "A gets a token: copy on write");
    append(1, {8}, "B gets another one: in place");
    append(1, {9, 10}, "B fills its page and needs one more");
    tables_.truncate(0, 0);
    tell("A leaves");
    tables_.truncate(1, 0);
    tell("B leaves: full pages stay cached");
    const int64_t adopted = tables_.adopt(2, {1, 2, 3, 4, 5, 6, 20});
    tell(fmt::format("C begins as A did, adopts {}", adopted));
    append(2, {5, 6, 20}, "C is fed the other three");
    append(0, {30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44}, "a new A needs four pages: one is evicted");
  }

 private:
  void append(int64_t row, Numbers tokens, const std::string& what) {
    tables_.begin({{row, std::move(tokens)}});
    tables_.commit();
    tell(what);
  }

  void tell(const std::string& what) const {
    std::vector<PageState> pages(kPages);
    for (int64_t row = 0; row < kRows; ++row) {
      int64_t left = tables_.length(row);
      for (const int64_t page : tables_.pages(row)) {
        pages[page].owners.push_back(row);
        pages[page].tokens = std::max(pages[page].tokens, std::min(left, kPage));
        left -= kPage;
      }
    }
    for (int64_t page = 0; page < kPages; ++page) {
      const PagePool& pool = tables_.pool();
      if (pool.references(page) == 0 && pool.is_published(page)) pages[page] = {.tokens = kPage, .cached = true};
    }
    tell_(what, pages);
  }

  std::function<void(const std::string&, const std::vector<PageState>&)> tell_;
  BlockTables tables_{kRows, kPage, kPages};
};

std::string drawn(const PageState& page) {
  std::string owners;
  for (const int64_t row : page.owners) owners += static_cast<char>('A' + row);
  std::string slots(page.tokens, page.cached ? 'o' : '#');
  slots.resize(kPage, '.');
  return fmt::format("{:>2} {}", owners, slots);
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("pool", [&] {
    CLI::App app("Chapter 8's pool of pages, drawn after each of a few operations", "pool");
    if (!parse_or_help(app, argc, argv)) return 0;
    fmt::print("{} pages of {} slots. Letters: whose block tables name the page\n", kPages, kPage);
    fmt::print("# a token  o a token nobody uses, cached  . empty\n\n{:<42}", "");
    for (int64_t page = 0; page < kPages; ++page) fmt::print("{:>9}", fmt::format("page {}", page));
    fmt::print("\n");
    Story([&](const std::string& what, const std::vector<PageState>& pages) {
      std::string line = fmt::format("{:<42}", what);
      for (const PageState& page : pages) line += "  " + drawn(page);
      fmt::print("{}\n", line);
    }).run();
    return 0;
  });
}

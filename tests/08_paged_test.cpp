// Chapter 8's own promises: pages, block tables, sharing. That each row is as if it were alone, the conformance suite
// holds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "chapters/08_paged/paged_cache.h"
#include "chapters/08_paged/waste.h"
#include "common/batch_generation.h"
#include "common/out_of_pages.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

torch::Tensor numbers(const Numbers& values) { return to_row(values)[0]; }

Step step_of(int64_t row, const Numbers& tokens) { return {.ids = to_row(tokens), .rows = numbers({row})}; }

// ---- the pool alone

TEST(PagePool, APageIsEmptyUsedOrCached) {
  PagePool pool(3);
  EXPECT_EQ(pool.available(), 3);
  const int64_t a = pool.take(), b = pool.take();
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.used(), 2);
  pool.publish(a, PagePool::kNoParent, {5, 6});
  pool.give_back(a);  // known, so it is kept
  pool.give_back(b);  // not known: it is empty
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.find(PagePool::kNoParent, {5, 6}), a);
}

TEST(PagePool, ASharedPageStaysUsedUntilAllHaveGivenItBack) {
  PagePool pool(1);
  const int64_t page = pool.take();
  pool.share(page);
  EXPECT_FALSE(pool.is_writable(page));
  pool.give_back(page);
  EXPECT_EQ(pool.used(), 1);
  EXPECT_TRUE(pool.is_writable(page));
  pool.give_back(page);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_THROW(pool.give_back(page), c10::Error);
}

TEST(PagePool, APageIsFoundByItsTokensAndItsParentAndNotByOneOfThem) {
  PagePool pool(4);
  const int64_t a = pool.take(), b = pool.take(), behind_a = pool.take();
  pool.publish(a, PagePool::kNoParent, {1, 2});
  pool.publish(b, PagePool::kNoParent, {3, 4});
  pool.publish(behind_a, a, {7, 7});
  EXPECT_EQ(pool.find(a, {7, 7}), behind_a);
  EXPECT_EQ(pool.find(b, {7, 7}), std::nullopt);
  EXPECT_EQ(pool.find(PagePool::kNoParent, {7, 7}), std::nullopt);
  EXPECT_EQ(pool.find(a, {7, 8}), std::nullopt);
}

TEST(PagePool, TheFirstPageUnderANameStaysAndAnUnknownParentHasNoChildren) {
  PagePool pool(3);
  const int64_t first = pool.take(), second = pool.take(), behind_second = pool.take();
  pool.publish(first, PagePool::kNoParent, {1, 2});
  pool.publish(second, PagePool::kNoParent, {1, 2});
  pool.publish(behind_second, second, {3, 4});
  EXPECT_EQ(pool.find(PagePool::kNoParent, {1, 2}), first);
  EXPECT_FALSE(pool.is_published(second));
  EXPECT_FALSE(pool.is_published(behind_second));
}

TEST(PagePool, TheCachedPageThatWasUsedLongestAgoIsEvictedFirst) {
  PagePool pool(3);
  Numbers pages;
  for (int64_t i = 0; i < 3; ++i) {
    pages.push_back(pool.take());
    pool.publish(pages[i], PagePool::kNoParent, {i});
  }
  for (const int64_t i : {1, 0, 2}) pool.give_back(pages[i]);
  pool.share(pages[1]);  // asked for again
  pool.give_back(pages[1]);
  EXPECT_EQ(pool.take(), pages[0]);
  EXPECT_EQ(pool.find(PagePool::kNoParent, {0}), std::nullopt);
  EXPECT_EQ(pool.take(), pages[2]);
  EXPECT_EQ(pool.take(), pages[1]);
  EXPECT_EQ(pool.available(), 0);
}

TEST(PagePool, SizesThatMakeNoSenseAreRefused) {
  EXPECT_THROW(PagePool(0), c10::ValueError);
  EXPECT_THROW(BlockTables(1, 0, 4), c10::ValueError);
  EXPECT_THROW(BlockTables(0, 4, 4), c10::ValueError);
  EXPECT_THROW(PagedCache(kSmallShape, 0), c10::ValueError);
  EXPECT_THROW(reserve_the_most(8, 0), c10::ValueError);
  EXPECT_THROW(reserve_pages(8, 0), c10::ValueError);
  EXPECT_THROW(reserve_pages(8, 9), c10::ValueError);
  EXPECT_THROW(PagedCache(kSmallShape, 4, -1), c10::ValueError);
  EXPECT_THROW(PagedCache(kSmallShape, 4, 0, -1), c10::ValueError);
}

// ---- with a model, against a full recompute

class PagedCacheTest : public testing::Test {
 protected:
  /// Feeds tokens to a row and compares their logits with those of everything that the row was ever fed, uncached.
  void feed(PagedCache& cache, int64_t row, const Numbers& tokens) {
    Numbers& fed = fed_[row];
    fed.insert(fed.end(), tokens.begin(), tokens.end());
    const torch::Tensor logits = model_->logits(model_->hidden(step_of(row, tokens), cache))[0];
    const torch::Tensor alone = full_recompute(checkpoint_, to_row(fed), 64)[0];
    const auto n = static_cast<int64_t>(tokens.size());
    EXPECT_LE(max_abs_diff(logits, alone.narrow(0, alone.size(0) - n, n)), 1e-9) << "row " << row;
  }
  /// As a request: what the cache has of the prompt is not fed. Returns how many tokens that are.
  int64_t ask(PagedCache& cache, int64_t row, const Numbers& prompt) {
    const int64_t adopted = cache.adopt_prefix(row, prompt);
    fed_[row].assign(prompt.begin(), prompt.begin() + adopted);
    feed(cache, row, {prompt.begin() + adopted, prompt.end()});
    return adopted;
  }
  void leave(PagedCache& cache, int64_t row) {
    cache.truncate(row, 0);
    fed_[row].clear();
  }
  void fork(PagedCache& cache, int64_t from, int64_t to) {
    cache.fork(from, to);
    fed_[to] = fed_[from];
  }

  Checkpoint checkpoint_ = golden_checkpoint("tiny");
  Gpt2 model_{checkpoint_};
  std::map<int64_t, Numbers> fed_;  // by row
};

TEST_F(PagedCacheTest, Case30ASharedPageIsCopiedByTheFirstToWriteToIt) {
  PagedCache cache(model_->shape(), /*page=*/4, /*pool_pages=*/8, /*rows=*/2);
  feed(cache, 0, {1, 2, 3, 4, 5, 6});
  fork(cache, 0, 1);
  EXPECT_EQ(cache.length(1), 6);
  EXPECT_EQ(cache.tables().pages(1), cache.tables().pages(0));
  EXPECT_EQ(cache.tables().pool().used(), 2);
  const Numbers before = cache.tables().pages(0);
  feed(cache, 0, {8});
  EXPECT_EQ(cache.tables().pages(1), before);
  EXPECT_EQ(cache.tables().pages(0)[0], before[0]);  // a full page is shared for good
  EXPECT_NE(cache.tables().pages(0)[1], before[1]);
  feed(cache, 1, {9});  // the only owner now: nothing is copied
  EXPECT_EQ(cache.tables().pages(1), before);
  EXPECT_EQ(cache.tables().pool().used(), 3);
  for (const int64_t row : {0, 1}) feed(cache, row, {10, 11, 12});
}

TEST_F(PagedCacheTest, TwoOwnersThatWriteInOneForwardBothGetACopy) {
  PagedCache cache(model_->shape(), 4, 8, 2);
  feed(cache, 0, {1, 2, 3, 4, 5, 6});
  fork(cache, 0, 1);
  model_->hidden({.ids = torch::tensor({{8}, {9}})}, cache);
  fed_[0].push_back(8);
  fed_[1].push_back(9);
  EXPECT_EQ(cache.tables().pool().used(), 3);  // the page that both had is nobody's now
  for (const int64_t row : {0, 1}) feed(cache, row, {10});
}

TEST_F(PagedCacheTest, AForwardThatIsGivenUpPutsASharedPageBack) {
  PagedCache cache(model_->shape(), 4, 8, 2);
  feed(cache, 0, {1, 2, 3, 4, 5, 6, 7});
  fork(cache, 0, 1);
  cache.truncate(1, 5);
  fed_[1].resize(5);
  const Numbers pages_0 = cache.tables().pages(0), pages_1 = cache.tables().pages(1);
  cache.begin({.ids = torch::tensor({{8, 9, 10}, {9, 9, 9}})});
  const torch::Tensor bad = torch::full({2, model_->shape().heads, 3, model_->shape().head_size}, 7.0, torch::kFloat64);
  cache.update(0, bad, bad);
  cache.abandon();
  EXPECT_EQ(cache.tables().pages(0), pages_0);
  EXPECT_EQ(cache.tables().pages(1), pages_1);
  EXPECT_EQ(cache.tables().pool().used(), 2);
  feed(cache, 0, {8});  // sees all seven as they were
  feed(cache, 1, {9});
}

TEST_F(PagedCacheTest, Case31AnEvictedPageIsNoLongerFoundUnderItsOldTokens) {
  PagedCache cache(model_->shape(), /*page=*/2, /*pool_pages=*/2, /*rows=*/1);
  const Numbers A = {1, 2, 3}, B = {4, 5, 6};
  EXPECT_EQ(ask(cache, 0, A), 0);
  leave(cache, 0);
  EXPECT_EQ(ask(cache, 0, B), 0);
  leave(cache, 0);
  EXPECT_EQ(cache.tables().pool().find(PagePool::kNoParent, {1, 2}), std::nullopt);
  EXPECT_EQ(ask(cache, 0, A), 0);
  leave(cache, 0);
  EXPECT_EQ(ask(cache, 0, A), 2);
}

TEST_F(PagedCacheTest, PagesBehindAnotherOneAreEvictedBeforeIt) {
  PagedCache cache(model_->shape(), /*page=*/2, /*pool_pages=*/3, /*rows=*/1);
  ask(cache, 0, {1, 2, 3, 4, 5});
  leave(cache, 0);
  ask(cache, 0, {9, 8, 7, 6});  // one page is left of the first text, and it is the first
  leave(cache, 0);
  EXPECT_TRUE(cache.tables().pool().find(PagePool::kNoParent, {1, 2}).has_value());
  EXPECT_EQ(cache.adopt_prefix(0, {9, 8, 7, 6, 3, 4, 5}), 4) << "3 4 stood behind 1 2";
}

TEST_F(PagedCacheTest, AWrapperAroundItKnowsWhatIsHeldWhenNoRowHasAToken) {
  PagedCache inner(model_->shape(), /*page=*/2);  // as many rows as the first step has
  CountingCache cache(inner);
  model_->hidden({to_row({1, 2, 3, 4, 5})}, cache);
  cache.truncate(0, 0);
  cache.begin({to_row({9})});
  cache.abandon();
  const int64_t adopted = cache.adopt_prefix(0, {1, 2, 3, 4, 5});
  EXPECT_EQ(adopted, 4);
  EXPECT_EQ(cache.length(), inner.length());
  const torch::Tensor logits = model_->logits(model_->hidden({to_row({5})}, cache))[0];
  EXPECT_LE(max_abs_diff(logits[0], full_recompute(checkpoint_, to_row({1, 2, 3, 4, 5}), 64)[0][-1]), 1e-9);
}

TEST_F(PagedCacheTest, Case32APromptThatIsWhollyCachedStillComputesItsLastToken) {
  for (const Numbers& prompt : {Numbers{1, 2, 3, 4}, Numbers{1, 2, 3, 4, 5, 6, 7, 8}}) {
    PagedCache cache(model_->shape(), 4, 8, 2);
    ask(cache, 0, prompt);
    const Numbers before = cache.tables().pages(0);
    EXPECT_EQ(ask(cache, 1, prompt), static_cast<int64_t>(prompt.size()) - 4);
    feed(cache, 1, {9, 9});
    EXPECT_EQ(cache.tables().pages(0), before);
    feed(cache, 0, {10});  // what is shared is as it was
  }
}

TEST_F(PagedCacheTest, APrefixIsAdoptedAsFarAsTokensAndAllBeforeThemAgree) {
  PagedCache cache(model_->shape(), 2, 32, 4);
  ask(cache, 0, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(ask(cache, 1, {1, 2, 3, 4, 9, 6, 7}), 4);
  EXPECT_EQ(ask(cache, 2, {9, 9, 3, 4, 5, 6, 7}), 0);  // the same tokens behind other ones
  EXPECT_EQ(ask(cache, 3, {1, 2, 3, 4, 5, 6, 7, 8}), 6);
}

TEST_F(PagedCacheTest, Case33APageIsPublishedWhenItIsWrittenAndAnAbortedPromptPublishesNothing) {
  PagedCache cache(model_->shape(), 2, 8, 2);
  ask(cache, 1, {20});
  cache.begin(step_of(0, {1, 2, 3}));
  const torch::Tensor key = torch::zeros({1, model_->shape().heads, 3, model_->shape().head_size}, torch::kFloat64);
  for (int64_t layer = 0; layer < model_->shape().layers; ++layer) {
    EXPECT_EQ(cache.tables().pool().find(PagePool::kNoParent, {1, 2}), std::nullopt) << "layer " << layer;
    cache.update(layer, key, key);
  }
  cache.abandon();
  EXPECT_EQ(cache.tables().pool().find(PagePool::kNoParent, {1, 2}), std::nullopt);
  EXPECT_EQ(cache.tables().pool().used(), 1);
  EXPECT_EQ(ask(cache, 0, {1, 2, 3}), 0);
  EXPECT_TRUE(cache.tables().pool().find(PagePool::kNoParent, {1, 2}).has_value());
}

TEST_F(PagedCacheTest, AFullPageThatIsTakenBackIsCopiedBeforeItIsWrittenAnew) {
  PagedCache cache(model_->shape(), 2, 16, 2);
  ask(cache, 0, {1, 2, 3, 4});
  cache.truncate(0, 3);
  fed_[0].resize(3);
  feed(cache, 0, {9, 10});
  EXPECT_EQ(ask(cache, 1, {1, 2, 3, 4, 5}), 4);  // as it was before
}

TEST_F(PagedCacheTest, Case36ThePageAfterAPromptOfExactlyOneIsThereBeforeTheWrite) {
  PagedCache cache(model_->shape(), /*page=*/4, /*pool_pages=*/2, /*rows=*/1);
  feed(cache, 0, {1, 2, 3, 4});
  EXPECT_EQ(cache.tables().pages(0).size(), 1U);
  cache.begin(step_of(0, {5}));
  EXPECT_EQ(cache.tables().pages(0).size(), 2U);
  cache.abandon();
  EXPECT_EQ(cache.tables().pages(0).size(), 1U);
  feed(cache, 0, {5});
}

TEST_F(PagedCacheTest, APoolThatIsShortIsSaidBeforeAnythingChanges) {
  PagedCache cache(model_->shape(), /*page=*/2, /*pool_pages=*/3, /*rows=*/2);
  feed(cache, 0, {1, 2, 3});
  feed(cache, 1, {4, 5});
  const Numbers before = cache.tables().pages(0);
  try {
    cache.begin({.ids = torch::tensor({{6, 7}, {8, 8}})});
    ADD_FAILURE() << "five pages in a pool of three";
  } catch (const OutOfPages& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("needs 2 pages of 2 tokens and 0 of 3 are free"), std::string::npos) << text;
  }
  EXPECT_EQ(cache.tables().pages(0), before);
  EXPECT_EQ(cache.length(0), 3);
  feed(cache, 0, {6});
  leave(cache, 1);
  feed(cache, 0, {7});
}

TEST_F(PagedCacheTest, AFirstStepThatIsRefusedLeavesTheNumberOfRowsOpen) {
  PagedCache cache(model_->shape(), /*page=*/2, /*pool_pages=*/3);
  EXPECT_THROW(cache.begin({.ids = torch::zeros({4, 1}, torch::kInt64)}), OutOfPages);
  model_->hidden({.ids = torch::zeros({3, 1}, torch::kInt64)}, cache);
  EXPECT_EQ(cache.length(2), 1);
}

TEST_F(PagedCacheTest, CachedPagesOutliveAForwardThatIsGivenUpAndBindItsDtype) {
  PagedCache cache(model_->shape(), 2, 8, 1);
  ask(cache, 0, {1, 2, 3});
  leave(cache, 0);
  cache.begin(step_of(0, {9}));
  cache.abandon();
  const torch::Tensor other = torch::zeros({1, model_->shape().heads, 1, model_->shape().head_size}, torch::kFloat32);
  cache.begin(step_of(0, {9}));
  EXPECT_THROW(cache.update(0, other, other), c10::ValueError);
  EXPECT_EQ(ask(cache, 0, {1, 2, 3}), 2);
  cache.reset();
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(ask(cache, 0, {1, 2, 3}), 0);
}

TEST_F(PagedCacheTest, ForkAndAdoptAreRefusedWhereTheyMakeNoSense) {
  PagedCache cache(model_->shape(), 2, 8, 3);
  cache.fork(0, 1);  // nothing is held, nothing is shared
  EXPECT_EQ(cache.adopt_prefix(0, {1, 2, 3}), 0);
  feed(cache, 0, {1, 2, 3});
  feed(cache, 1, {4});
  EXPECT_THROW(cache.fork(0, 1), c10::IndexError);
  EXPECT_THROW(cache.fork(0, 0), c10::IndexError);
  EXPECT_THROW(cache.fork(0, 3), c10::IndexError);
  EXPECT_THROW(cache.fork(-1, 2), c10::IndexError);
  EXPECT_THROW(cache.adopt_prefix(0, {1, 2, 3}), c10::IndexError);
  EXPECT_THROW(cache.adopt_prefix(3, {1, 2, 3}), c10::IndexError);
  EXPECT_THROW(cache.adopt_prefix(2, {}), c10::ValueError);
  EXPECT_EQ(cache.adopt_prefix(2, {1}), 0);
  EXPECT_EQ(cache.length(2), 0);
}

TEST(PagedCache, APageMayBeLargerThanTheContext) {
  PagedCache cache(kSmallShape, /*page=*/11);
  for (int64_t T : {3, 1, 4}) forward_numbered(cache, T);
  EXPECT_EQ(cache.tables().pool().pages(), 1);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 11 * 4 * 4);  // 2·L·H·page·D·4
}

TEST(PagedCache, HoldsBytesByTheFormulaForItsPool) {
  PagedCache cache(kSmallShape, /*page=*/3, /*pool_pages=*/7, /*rows=*/2);
  forward_numbered(cache, 1, 2);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * 7 * 3 * 4 * 4);  // 2·L·H·pages·page·D·4
}

TEST(PagedCache, PagesMayLieAnywhere) {
  PagedCache cache(kSmallShape, /*page=*/2, /*pool_pages=*/6, /*rows=*/2);
  forward_numbered(cache, 1, 2);
  for (int i = 0; i < 4; ++i) forward_numbered(cache, 1, 2);  // in turn: pages 0, 2, 4 and 1, 3, 5
  EXPECT_EQ(cache.tables().pages(0), (Numbers{0, 2, 4}));
  EXPECT_EQ(cache.tables().pages(1), (Numbers{1, 3, 5}));
  EXPECT_EQ(cache.slots(0), (Numbers{0, 1, 2, 3, 4, kEmptySlot}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1, 2).keys), (Numbers{0, 1, 2, 3, 4, 5}));
}

// ---- many operations

constexpr ModelShape kOneHead = {
    .layers = 1, .heads = 1, .kv_heads = 1, .head_size = 1, .context = 24, .vocabulary = 2};
constexpr int64_t kPage = 4;

/// What a model would make of a token and all before it: another number for another beginning.
std::vector<double> keys_of(const Numbers& tokens) {
  std::vector<double> keys;
  uint64_t state = 1;
  for (const int64_t token : tokens) {
    state = (state * 6364136223846793005ULL + static_cast<uint64_t>(token) + 1442695040888963407ULL);
    keys.push_back(static_cast<double>(state >> 40));
  }
  return keys;
}

/// Rows that come, grow, part and go, beside a plain copy of what each should hold.
class RandomRows {
 public:
  explicit RandomRows(uint64_t seed) : draw_(seed), cache_(kOneHead, kPage, kPoolPages, kRows), want_(kRows) {
    append({{0, {0}}}, /*commit=*/true);  // so that there are tables
  }

  void one_operation() {
    const int64_t row = below(kRows), length = cache_.length(row);
    switch (below(10)) {
      case 0:
        return free(row);
      case 1:
        return fork(row, below(kRows));
      case 2:
        if (length > 1) take_back(row, 1 + below(length - 1));
        return;
      case 3:
        return append(some_rows(row), /*commit=*/false);
      case 4:
      case 5:
        if (length == 0) return adopt(row);
        [[fallthrough]];
      default:
        return append(some_rows(row), /*commit=*/true);
    }
  }

  /// Free and used pages are all there are; references are the entries of tables; every page is listed once.
  void check() {
    const BlockTables& tables = cache_.tables();
    const PagePool& pool = tables.pool();
    std::map<int64_t, int64_t> entries;
    for (int64_t row = 0; row < kRows; ++row) {
      const Numbers& pages = tables.pages(row);
      ASSERT_EQ(cache_.length(row), static_cast<int64_t>(want_[row].size()));
      ASSERT_EQ(tables.length(row), cache_.length(row));
      ASSERT_EQ(static_cast<int64_t>(pages.size()), (cache_.length(row) + kPage - 1) / kPage);
      std::map<int64_t, int64_t> in_this_one;
      for (const int64_t page : pages) {
        ++entries[page];
        ASSERT_EQ(++in_this_one[page], 1) << "page " << page << " twice in row " << row;
      }
      for (size_t i = 0; i < pages.size(); ++i) {
        if (!pool.is_published(pages[i])) continue;
        const auto first = want_[row].begin() + static_cast<int64_t>(i) * kPage;
        if (want_[row].end() - first < kPage) continue;  // taken back into it: the name tells what is behind as well
        ASSERT_EQ(pool.find(i == 0 ? PagePool::kNoParent : pages[i - 1], {first, first + kPage}), pages[i]);
      }
    }
    int64_t used = 0, cached = 0;
    for (int64_t page = 0; page < pool.pages(); ++page) {
      ASSERT_EQ(pool.references(page), entries[page]) << "page " << page;
      used += entries[page] > 0 ? 1 : 0;
      cached += entries[page] == 0 && pool.is_published(page) ? 1 : 0;
    }
    ASSERT_EQ(pool.used(), used);
    ASSERT_EQ(pool.cached(), cached);
  }

  std::map<std::string, int64_t> happened;

 private:
  static constexpr int64_t kRows = 6, kPoolPages = 17;

  int64_t below(int64_t bound) { return static_cast<int64_t>(draw_() % static_cast<uint64_t>(bound)); }

  struct Fed {
    int64_t row;
    Numbers tokens;
  };

  /// One row, or up to three; each gets one to six tokens, as far as the context goes: mostly 0, so that beginnings are
  /// often alike. A row that is full leaves.
  std::vector<Fed> some_rows(int64_t first) {
    std::vector<Fed> fed;
    for (int64_t i = 0, rows = std::max<int64_t>(1, below(5) - 1); i < rows; ++i) {
      const int64_t row = (first + i) % kRows;
      if (cache_.length(row) == kOneHead.context) free(row);
      Numbers tokens(std::min<int64_t>(1 + below(6), kOneHead.context - cache_.length(row)));
      for (int64_t& token : tokens) token = below(8) == 0 ? 1 : 0;
      fed.push_back({row, tokens});
    }
    return fed;
  }

  static Step step_of_rows(const std::vector<Fed>& fed) {
    int64_t T = 0;
    for (const Fed& each : fed) T = std::max(T, static_cast<int64_t>(each.tokens.size()));
    const auto B = static_cast<int64_t>(fed.size());
    Step step{.ids = torch::zeros({B, T}, torch::kInt64), .counts = torch::zeros({B}, torch::kInt64)};
    Numbers rows;
    for (int64_t b = 0; b < B; ++b) {
      const auto n = static_cast<int64_t>(fed[b].tokens.size());
      step.ids[b].narrow(0, 0, n).copy_(numbers(fed[b].tokens));
      step.counts[b] = n;
      rows.push_back(fed[b].row);
    }
    step.rows = numbers(rows);
    return step;
  }

  bool begin(const Step& step) {
    const bool first = happened["begun"]++ == 0;  // there are no tables yet
    const int64_t cached = first ? 0 : cache_.tables().pool().cached();
    try {
      cache_.begin(step);
    } catch (const OutOfPages&) {
      ++happened["refused"];
      EXPECT_EQ(cache_.tables().pool().cached(), cached) << "evicted for nothing";
      return false;
    }
    happened["evicted"] += cached - cache_.tables().pool().cached();
    happened["copied"] += static_cast<int64_t>(cache_.tables().copies().size());
    happened["several rows"] += step.ids.size(0) > 1 ? 1 : 0;
    return true;
  }

  /// The keys that come back are compared with those of all that each row should hold.
  void update(const std::vector<Fed>& fed, int64_t T) {
    const auto B = static_cast<int64_t>(fed.size());
    torch::Tensor fresh = torch::full({B, 1, T, 1}, -7, torch::kFloat64);  // -7: padding
    std::vector<torch::Tensor> all;
    for (int64_t b = 0; b < B; ++b) {
      Numbers after = want_[fed[b].row];
      after.insert(after.end(), fed[b].tokens.begin(), fed[b].tokens.end());
      all.push_back(torch::tensor(keys_of(after), torch::kFloat64));
      const auto n = static_cast<int64_t>(fed[b].tokens.size());
      fresh[b][0].narrow(0, 0, n).copy_(all[b].narrow(0, all[b].size(0) - n, n).unsqueeze(1));
    }
    const KeyValues kv = cache_.update(0, fresh, -fresh);
    for (int64_t b = 0; b < B; ++b) {
      EXPECT_TRUE(kv.keys[b][0].select(1, 0).narrow(0, 0, all[b].size(0)).equal(all[b])) << "row " << fed[b].row;
      EXPECT_TRUE(kv.values[b][0].select(1, 0).narrow(0, 0, all[b].size(0)).equal(-all[b]));
    }
  }

  void append(const std::vector<Fed>& fed, bool commit) {
    const Step step = step_of_rows(fed);
    if (!begin(step)) return;
    if (commit || below(2) == 0) update(fed, step.ids.size(1));
    if (!commit) {
      cache_.abandon();
      ++happened["aborted"];
      return;
    }
    cache_.commit();
    for (const auto& [row, tokens] : fed) want_[row].insert(want_[row].end(), tokens.begin(), tokens.end());
    ++happened["appended"];
  }

  void free(int64_t row) {
    if (!want_[row].empty()) past_[below(static_cast<int64_t>(past_.size()))] = want_[row];
    cache_.truncate(row, 0);
    want_[row].clear();
  }

  void take_back(int64_t row, int64_t length) {
    cache_.truncate(row, length);
    want_[row].resize(length);
    ++happened["taken back"];
  }

  void fork(int64_t from, int64_t to) {
    if (from == to || cache_.length(to) > 0) return;
    cache_.fork(from, to);
    want_[to] = want_[from];
    ++happened["forked"];
  }

  /// A prompt that begins as some row does, or as one did that has left.
  void adopt(int64_t row) {
    Numbers prompt = below(2) == 0 ? want_[below(kRows)] : past_[below(static_cast<int64_t>(past_.size()))];
    prompt.resize(std::min<int64_t>(prompt.size() + 2, kOneHead.context), 0);
    const int64_t adopted = cache_.adopt_prefix(row, prompt);
    ASSERT_LT(adopted, static_cast<int64_t>(prompt.size()));
    want_[row].assign(prompt.begin(), prompt.begin() + adopted);
    happened["adopted"] += adopted > 0 ? 1 : 0;
  }

  std::mt19937_64 draw_;
  PagedCache cache_;
  std::vector<Numbers> want_;                             // tokens, a row each
  std::vector<Numbers> past_ = std::vector<Numbers>(20);  // texts of rows that have left
};

TEST(PagedCache, Case34TheBooksAreRightAfterEveryOneOfTenThousandOperations) {
  RandomRows rows(34);
  for (int i = 0; i < 10'000; ++i) {
    rows.one_operation();
    rows.check();
    if (testing::Test::HasFailure()) FAIL() << "operation " << i;
  }
  for (const char* what :
       {"appended", "aborted", "refused", "evicted", "copied", "forked", "adopted", "taken back", "several rows"}) {
    EXPECT_GE(rows.happened[what], 100) << what;
    fmt::print("{} {}, ", rows.happened[what], what);
  }
  fmt::print("\n");
}

TEST(PagedCache, Case34AfterTwoHundredRequestsNoPageIsUsed) {
  PagedCache cache(kOneHead, kPage, /*pool_pages=*/8, /*rows=*/4);
  const Numbers lengths = {3, 4, 5, 8};
  for (int64_t request = 0; request < 200; ++request) {
    const int64_t row = request % 4, n = lengths[row];
    cache.truncate(row, 0);
    cache.begin(step_of(row, Numbers(n, request % 2)));
    const torch::Tensor key = torch::zeros({1, 1, n, 1});
    cache.update(0, key, key);
    if (request != 77) cache.commit();
  }
  for (int64_t row = 0; row < 4; ++row) cache.truncate(row, 0);
  EXPECT_EQ(cache.tables().pool().used(), 0);
  EXPECT_EQ(cache.tables().pool().available(), 8);
}

// ---- what is wasted, by hand

TEST(Waste, TheMostIsReservedForEverybody) {
  // 16 slots, at most 8 a request: two at once. Prompts of 3, answers of 2: slots for 3, then for 4 tokens.
  const auto reservation = reserve_the_most(16, 8);
  const Usage usage = serve(*reservation, 16, {{3, 2}, {3, 2}, {3, 2}});
  EXPECT_EQ(usage.steps, 4);  // two of two steps, then the third alone, for which nobody waits
  EXPECT_DOUBLE_EQ(usage.used, (6.0 + 8.0) / 2 / 16);
  EXPECT_DOUBLE_EQ(usage.inner, 1 - usage.used);
  EXPECT_DOUBLE_EQ(usage.outer, 0);
  EXPECT_DOUBLE_EQ(usage.at_once, 2);
  EXPECT_EQ(usage.preempted, 0);
}

TEST(Waste, WhatIsLeftBetweenBlocksIsOuterWaste) {
  const auto reservation = reserve_the_most(10, 8);
  const Usage usage = serve(*reservation, 10, {{8, 1}, {8, 1}});
  EXPECT_DOUBLE_EQ(usage.used, 0.8);
  EXPECT_DOUBLE_EQ(usage.inner, 0);
  EXPECT_DOUBLE_EQ(usage.outer, 0.2);
}

TEST(Waste, AnOutgrownBlockIsLeftForOneTwiceAsLarge) {
  const auto reservation = reserve_powers_of_two(16);
  EXPECT_TRUE(reservation->grow(0, 3));
  EXPECT_EQ(reservation->held(0), 4);
  EXPECT_TRUE(reservation->grow(0, 4));
  EXPECT_TRUE(reservation->grow(0, 5));  // from slots 0-3 to 8-15
  EXPECT_EQ(reservation->held(0), 8);
  EXPECT_TRUE(reservation->grow(1, 8));   // 0-7: its halves were joined again
  EXPECT_FALSE(reservation->grow(0, 9));  // sixteen, while eight are held
  EXPECT_EQ(reservation->held(0), 8);
  EXPECT_FALSE(reservation->grow(2, 1));
  reservation->release(0);
  reservation->release(1);
  EXPECT_TRUE(reservation->grow(2, 16));
  EXPECT_FALSE(reservation->grow(3, 17));
  EXPECT_THROW(reserve_powers_of_two(12), c10::ValueError);
}

TEST(Waste, PagesWasteLessThanAPageARequest) {
  // 16 slots in pages of 4; requests of 5 slots: two pages each, two at once.
  const auto reservation = reserve_pages(16, 4);
  const Usage usage = serve(*reservation, 16, {{5, 1}, {5, 1}, {5, 1}});
  EXPECT_DOUBLE_EQ(usage.used, 10.0 / 16);
  EXPECT_DOUBLE_EQ(usage.inner, 6.0 / 16);
  EXPECT_DOUBLE_EQ(usage.outer, 0);
}

TEST(Waste, WhatIsKeptFreeAfterAPreemptionIsNeitherInnerNorOuter) {
  // Pages of 1, six of them; two requests start with three each. When both need a fourth, the second leaves, and its
  // three pages are free: one is taken by the first, and there are not three for the second, then, or later.
  const auto reservation = reserve_pages(6, 1);
  const Usage usage = serve(*reservation, 6, {{3, 2}, {3, 2}});
  EXPECT_EQ(usage.preempted, 1);
  EXPECT_DOUBLE_EQ(usage.used, 4.0 / 6);  // in the one step in which the second waits
  EXPECT_DOUBLE_EQ(usage.outer, 2.0 / 6);
  EXPECT_DOUBLE_EQ(usage.kept_free, 0);
  const auto roomy = reserve_pages(7, 1);  // now there are three, and nobody may start
  const Usage kept = serve(*roomy, 7, {{3, 2}, {3, 2}});
  EXPECT_EQ(kept.preempted, 1);
  EXPECT_DOUBLE_EQ(kept.outer, 0);
  EXPECT_DOUBLE_EQ(kept.kept_free, 3.0 / 7);
}

TEST(Waste, WhoCannotGrowPutsOffTheLast) {
  // Two pages of 2: both start with one, and the first needs the second's for its third token.
  const auto reservation = reserve_pages(4, 2);
  const Usage usage = serve(*reservation, 4, {{2, 2}, {2, 2}});
  EXPECT_EQ(usage.preempted, 1);
  EXPECT_EQ(usage.recomputed, 2);
  EXPECT_EQ(usage.steps, 1 + 1 + 2);  // both; the first ends; then the second, whose first token counts still
  EXPECT_THROW(serve(*reserve_pages(4, 2), 4, {{5, 1}}), c10::ValueError);
  EXPECT_THROW(serve(*reserve_pages(4, 2), 4, {{2, 9}}), c10::ValueError);
}

// ---- requests in a batch

TEST_F(PagedCacheTest, Case35WhoIsPutOffForWantOfPagesGetsTheTokensOfAnUnlimitedPool) {
  const std::vector<Request> requests = {{{5, 6, 7, 8, 9, 10}, 12}, {{11, 12, 13, 14, 15}, 12}};
  for (const int64_t pool_pages : {5, 6, 7}) {  // of 4 tokens: 17 positions are five pages, 16 four
    for (const std::optional<int64_t> chunk : {std::optional<int64_t>{}, {2}}) {
      for (const Batching batching : {Batching::kContinuous, Batching::kStatic}) {
        PagedCache cache(model_->shape(), 4, pool_pages, 2);
        const auto done = generate_batch(model_, cache, requests, {.rows = 2, .batching = batching, .chunk = chunk});
        EXPECT_GE(done.preemptions, 1) << pool_pages << " pages";
        for (size_t i = 0; i < requests.size(); ++i) {
          const torch::Tensor alone = greedy_recompute(checkpoint_, to_row(requests[i].prompt), 64, 12);
          EXPECT_TRUE(done.answers[i].new_ids.equal(alone)) << pool_pages << " pages, request " << i;
        }
        EXPECT_EQ(cache.tables().pool().used(), 0);
      }
    }
  }
}

TEST_F(PagedCacheTest, TheLastToComeIsPreemptedAndContinuedFirstWhenOneHasFinished) {
  // Pages of one token, twelve of them. A, B and C have three each when their first tokens are known, and four when
  // their second are. Then C leaves. A ends with its fourth token, and C and D may come: six pages are free, for five
  // tokens of C, and D is sent away. Its third token known, C has to go again for B's fifth. Then both come, C first.
  const std::vector<Request> requests = {{{5, 6, 7}, 4}, {{8, 9, 10}, 6}, {{11, 12, 13}, 4}, {{14, 15, 16}, 1}};
  PagedCache cache(model_->shape(), /*page=*/1, /*pool_pages=*/12, /*rows=*/3);
  Numbers told;
  BatchOptions options{.rows = 3};
  options.on_token = [&](size_t request, int64_t) { told.push_back(static_cast<int64_t>(request)); };
  const auto done = generate_batch(model_, cache, requests, options);
  EXPECT_EQ(told, (Numbers{0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2, 1, 1, 2, 3}));
  EXPECT_EQ(done.preemptions, 3);
  for (size_t i = 0; i < requests.size(); ++i) {
    const torch::Tensor alone = greedy_recompute(checkpoint_, to_row(requests[i].prompt), 64, requests[i].new_tokens);
    EXPECT_TRUE(done.answers[i].new_ids.equal(alone)) << "request " << i;
  }
}

TEST_F(PagedCacheTest, APreemptedRequestEndsForItsOwnReason) {
  const Numbers almost_full(58, 7);
  const Numbers free = to_ids(greedy_recompute(checkpoint_, to_row({5, 6, 7, 8}), 64, 30));
  PagedCache cache(model_->shape(), /*page=*/4, /*pool_pages=*/17, /*rows=*/3);
  const auto done = generate_batch(model_, cache, {{{5, 6, 7, 8}, 30}, {{5, 6, 7, 8}, 30}, {almost_full, 30}},
                                   {.rows = 3, .stop_at = free[20]});
  EXPECT_GE(done.preemptions, 1);
  const Numbers stopped(free.begin(), std::find(free.begin(), free.end(), free[20]) + 1);
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(to_ids(done.answers[i].new_ids), stopped);
    EXPECT_EQ(done.answers[i].finish_reason, FinishReason::kEos);
  }
  const Numbers full = to_ids(greedy_recompute(checkpoint_, to_row(almost_full), 64, 7));
  ASSERT_EQ(std::count(full.begin(), full.end(), free[20]), 0) << "it would end for the other reason";
  EXPECT_EQ(done.answers[2].finish_reason, FinishReason::kContextFull);
  EXPECT_EQ(to_ids(done.answers[2].new_ids), full);
}

TEST_F(PagedCacheTest, ManyRequestsInASmallPoolAllGetTheirTokens) {
  std::vector<Request> requests;
  for (const GoldenRun& run : golden_runs("tiny", "full")) requests.push_back({run.prompt, run.new_tokens()});
  const std::vector<GoldenRun> golden = golden_runs("tiny", "full");
  int64_t longest = 0;
  for (const GoldenRun& run : golden) longest = std::max(longest, static_cast<int64_t>(run.ids.size()) - 1);
  for (const int64_t page : {1, 3, 16}) {
    const int64_t least = (longest + page - 1) / page;
    for (const int64_t pool_pages : {least, least + 1, 2 * least}) {
      PagedCache cache(model_->shape(), page, pool_pages, 3);
      for (int round = 0; round < 2; ++round) {  // the second finds pages of the first
        const auto done = generate_batch(model_, cache, requests, {.rows = 3});
        for (size_t i = 0; i < golden.size(); ++i) {
          EXPECT_EQ(to_ids(done.answers[i].new_ids), golden[i].new_ids())
              << "page " << page << ", pool " << pool_pages << ", request " << i;
        }
        EXPECT_EQ(cache.tables().pool().used(), 0);
      }
    }
  }
}

TEST_F(PagedCacheTest, OneRequestThatThePoolCannotHoldIsAnError) {
  PagedCache cache(model_->shape(), 4, 2, 2);
  EXPECT_THROW(generate_batch(model_, cache, {{{5, 6, 7}, 9}, {{5}, 1}}, {.rows = 2}), OutOfPages);
}

TEST_F(PagedCacheTest, RequestsWithOneBeginningFeedItOnce) {
  const Numbers beginning = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<Request> requests;
  for (const int64_t last : {20, 21, 22}) {
    requests.push_back({beginning, 3});
    requests.back().prompt.push_back(last);
  }
  PagedCache cache(model_->shape(), 4, 0, 1);
  const auto done = generate_batch(model_, cache, requests, {.rows = 1});
  EXPECT_EQ(done.adopted_tokens, 2 * 8);
  EXPECT_EQ(done.real_tokens, 3 * (10 + 2) - 2 * 8);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(done.answers[i].new_ids.equal(greedy_recompute(checkpoint_, to_row(requests[i].prompt), 64, 3)));
  }
}

}  // namespace
}  // namespace kvbook

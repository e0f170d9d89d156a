// Chapter 7's own promises. That each row is as if it were alone, tests/conformance/ragged_suite.cpp holds.
#include <gtest/gtest.h>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "chapters/07_ragged_batch/ragged_mask.h"
#include "common/ids.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

torch::Tensor numbers(const Numbers& values) { return to_row(values)[0]; }

TEST(RaggedMask, PaddingSeesNothingAndATokenItsOwnPast) {
  // Row 0 holds 1 and gets 2, row 1 holds 0 and gets 1.
  const torch::Tensor right = ragged_mask({1, 0}, {2, 1}, 2, /*pad_left=*/false, torch::kCPU);
  EXPECT_TRUE(right.equal(torch::tensor({{true, true, false},
                                         {true, true, true},  //
                                         {true, false, false},
                                         {false, false, false}})
                              .view({2, 1, 2, 3})));
  const torch::Tensor left = ragged_mask({1, 0}, {2, 1}, 2, /*pad_left=*/true, torch::kCPU);
  EXPECT_TRUE(left[1][0].equal(torch::tensor({{false, false, false}, {true, false, false}})));
}

TEST(RaggedBatchCache, RowsOfEqualLengthNeedNoMaskForOneToken) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/2);
  forward_numbered(cache, 3, 2);
  EXPECT_FALSE(forward_numbered(cache, 1, 2).visible.defined());
}

TEST(RaggedBatchCache, NeighboursAreViewsOthersAreGathered) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/3);
  forward_numbered(cache, 2, 3);
  const auto address = [&](const Numbers& rows) {
    const auto B = static_cast<int64_t>(rows.size());
    cache.begin({.ids = torch::zeros({B, 1}, torch::kInt64), .rows = numbers(rows)});
    const torch::Tensor key = torch::zeros({B, 2, 1, 4});
    const void* there = cache.update(0, key, key).keys.data_ptr();
    cache.abandon();
    return there;
  };
  const auto* all = static_cast<const float*>(address({0, 1, 2}));
  EXPECT_EQ(address({1, 2}), all + 2 * 8 * 4);  // one row further: H·C·D numbers
  EXPECT_NE(address({0, 2}), all);
  EXPECT_NE(address({1, 0}), all);
}

TEST(RaggedBatchCache, HoldsBytesByTheFormulaForAllItsRows) {
  RaggedBatchCache cache(kSmallShape, /*capacity=*/5, /*rows=*/3);
  EXPECT_EQ(cache.bytes(), 0);
  const torch::Tensor key = torch::zeros({1, 2, 1, 4}, torch::kFloat64);
  cache.begin({.ids = torch::zeros({1, 1}, torch::kInt64), .rows = numbers({1})});
  for (int64_t layer = 0; layer < 2; ++layer) cache.update(layer, key, key);
  cache.commit();
  EXPECT_EQ(cache.bytes(), 2 * 2 * 3 * 2 * 5 * 4 * 8);  // 2·L·rows·H·C·D·8
}

TEST(RaggedBatchCache, KeepsItsMemoryWhenAllRowsHaveLeftUntilReset) {
  RaggedBatchCache cache(kSmallShape, /*capacity=*/5, /*rows=*/2);
  forward_numbered(cache, 2, 2);
  const int64_t bytes = cache.bytes();
  for (const int64_t row : {0, 1}) cache.truncate(row, 0);
  EXPECT_EQ(cache.bytes(), bytes);
  forward_numbered(cache, 1, 2);
  cache.reset();
  EXPECT_EQ(cache.bytes(), 0);
}

TEST(RaggedBatchCache, ARowThatIsNotThereYetHasNothingToTakeBack) {
  RaggedBatchCache cache(kSmallShape, 8);
  cache.truncate(0, 0);
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_THROW(cache.truncate(1, 0), c10::IndexError);
}

TEST(RaggedBatchCache, ColumnsNameNobodysColumnsToo) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/3);
  cache.begin({.ids = torch::zeros({2, 2}, torch::kInt64), .counts = numbers({2, 0}), .rows = numbers({2, 0})});
  EXPECT_EQ(cache.columns(2), (Numbers{0, 1}));
  EXPECT_EQ(cache.columns(0), (Numbers{kEmptySlot, kEmptySlot}));
  EXPECT_EQ(cache.columns(1), Numbers{});
}

TEST(RaggedBatchCache, TheStepMayBeReusedByItsOwner) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/3);
  forward_numbered(cache, 2, 3);
  const Step step{.ids = torch::zeros({2, 1}, torch::kInt64), .rows = numbers({2, 0})};
  cache.begin(step);
  step.rows.fill_(1);
  const torch::Tensor key = torch::full({2, 2, 1, 4}, 5.0);
  EXPECT_EQ(numbers_of(cache.update(0, key, key).keys), (Numbers{0, 1, 5}));
}

TEST(RaggedBatchCache, ARowWithoutRoomIsNamedAndNothingChanges) {
  RaggedBatchCache cache(kSmallShape, /*capacity=*/4, /*rows=*/2);
  forward_numbered(cache, 3, 2);
  try {
    cache.begin({.ids = torch::zeros({2, 2}, torch::kInt64), .counts = numbers({1, 2})});
    ADD_FAILURE() << "row 1 took a fifth token in four slots";
  } catch (const c10::IndexError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("row 1 holds 3 of 4"), std::string::npos);
  }
  EXPECT_EQ(cache.length(0), 3);
  EXPECT_EQ(cache.length(1), 3);
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1, 2).keys), (Numbers{0, 1, 2, 3}));
}

TEST(RaggedStep, IsRefusedWhereItMakesNoSense) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/2);
  const torch::Tensor ids = torch::zeros({2, 3}, torch::kInt64), one = torch::zeros({1, 3}, torch::kInt64);
  const auto refused = [&](const Step& step, const std::string& piece) {
    try {
      cache.begin(step);
      ADD_FAILURE() << "taken: " << piece;
    } catch (const c10::ValueError& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_NE(text.find(piece), std::string::npos) << text;
    }
  };
  refused({.ids = ids, .counts = numbers({1})}, "counts must be int64 [B = 2]");
  refused({.ids = ids, .counts = torch::ones({2})}, "counts must be int64");
  refused({.ids = ids, .counts = numbers({1, 4})}, "counts has 4");
  refused({.ids = ids, .counts = numbers({-1, 2})}, "counts has -1");
  refused({.ids = ids, .counts = numbers({0, 0})}, "no row of this step has a token");
  refused({.ids = ids, .rows = numbers({1, 1})}, "row 1 twice");
  refused({.ids = ids, .rows = numbers({1, 2})}, "row 2 of a cache with 2");
  refused({.ids = ids, .rows = numbers({-1, 0})}, "row -1");
  refused({.ids = one}, "name the rows");
  EXPECT_EQ(cache.length(0), 0);
}

TEST(RaggedStep, IsRefusedByNameWhereRowsAdvanceTogether) {
  PreallocatedCache cache(kSmallShape, 8);
  const torch::Tensor ids = torch::zeros({1, 2}, torch::kInt64);
  for (const Step& step : {Step{.ids = ids, .counts = numbers({1})}, Step{.ids = ids, .rows = numbers({0})},
                           Step{.ids = ids, .pad_left = true}}) {
    try {
      cache.begin(step);
      ADD_FAILURE() << "a ragged step was taken by chapter 4's cache";
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find("07_ragged_batch"), std::string::npos);
    }
  }
  EXPECT_THROW(cache.truncate(0, 0), c10::ValueError);
}

}  // namespace
}  // namespace kvbook

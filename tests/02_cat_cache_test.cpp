// Chapter 2's own promises.
#include <gtest/gtest.h>

#include "chapters/02_cat_cache/cat_cache.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

TEST(CatCache, ReturnsEveryKeySoFarInOrder) {
  CatCache cache(kSmallShape);
  forward_numbered(cache, 3);
  const KeyValues kv = forward_numbered(cache, 1);
  EXPECT_EQ(numbers_of(kv.keys), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers_of(-kv.values), (Numbers{0, 1, 2, 3}));
}

TEST(CatCache, MasksAChunkOnAnEmptyCacheAndNothingForOneToken) {
  CatCache cache(kSmallShape);
  const torch::Tensor visible = forward_numbered(cache, 3).visible;
  EXPECT_TRUE(visible.equal(torch::tensor({{true, false, false}, {true, true, false}, {true, true, true}})));
  EXPECT_FALSE(forward_numbered(cache, 1).visible.defined());
}

TEST(CatCache, RefusesAChunkOnHistoryAndNamesTheChapterThatTakesIt) {
  CatCache cache(kSmallShape);
  forward_numbered(cache, 2);
  try {
    cache.begin({torch::zeros({1, 2}, torch::kInt64)});
    ADD_FAILURE() << "a chunk of 2 was taken";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("chapter 3"), std::string::npos);
  }
  EXPECT_EQ(cache.length(), 2);
}

TEST(CatCache, HoldsBytesByTheFormulaForTheTokensThatItHas) {
  for (const int64_t B : {1, 3}) {
    CatCache cache(kSmallShape);
    EXPECT_EQ(cache.bytes(), 0);
    forward_numbered(cache, 3, B, torch::kFloat64);
    EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 3 * 4 * 8);  // 2·L·B·H·P·D·8
    forward_numbered(cache, 1, B, torch::kFloat64);
    EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 4 * 4 * 8);
  }
}

TEST(CatCache, KeepsNoLargerTensorAliveThroughAView) {
  // A key comes as a view into the qkv tensor, three times as large. For one token contiguous() would return that view.
  CatCache cache(kSmallShape);
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  const torch::Tensor qkv = torch::ones({1, 1, 24});
  const torch::Tensor key = qkv.narrow(-1, 8, 8).view({1, 1, 2, 4}).transpose(1, 2);
  const KeyValues kv = cache.update(0, key, key);
  EXPECT_EQ(kv.keys.storage().nbytes(), kv.keys.nbytes());
}

}  // namespace
}  // namespace kvbook

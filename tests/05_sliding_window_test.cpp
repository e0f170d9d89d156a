// Chapter 5's own promises.
#include <gtest/gtest.h>

#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

/// How many keys each query of the last step saw.
Numbers keys_seen(const KeyValues& kv, int64_t T) {
  if (!kv.visible.defined()) return Numbers(T, kv.keys.size(2));
  const torch::Tensor sums = kv.visible.sum(-1).contiguous();
  return {sums.data_ptr<int64_t>(), sums.data_ptr<int64_t>() + sums.numel()};
}

TEST(WindowMask, IsABandOfWidthW) {
  // Two old keys, three new ones, W = 3: columns are positions P - 2 to P + 2.
  EXPECT_TRUE(
      window_mask(2, 3, 3, torch::kCPU)
          .equal(torch::tensor(
              {{true, true, true, false, false}, {false, true, true, true, false}, {false, false, true, true, true}})));
  EXPECT_TRUE(window_mask(0, 2, 1, torch::kCPU).equal(torch::tensor({{true, false}, {false, true}})));
  EXPECT_TRUE(window_mask(1, 2, 8, torch::kCPU).equal(torch::tensor({{true, true, false}, {true, true, true}})));
}

TEST(SlidingWindowCache, Case06EveryQuerySeesItselfAndAtMostWMinusOneBefore) {
  for (const int64_t W : {1, 3, 6, 8}) {
    for (const Numbers& sizes : {Numbers{6}, {1, 1, 1, 1, 1, 1}, {4, 2}, {2, 4}, {3, 1, 2}}) {
      SlidingWindowCache cache(kSmallShape, W);
      int64_t position = 0;
      for (const int64_t T : sizes) {
        const KeyValues kv = forward_numbered(cache, T);
        for (const int64_t seen : keys_seen(kv, T)) EXPECT_EQ(seen, std::min(++position, W));
      }
    }
  }
}

TEST(SlidingWindowCache, DecodesWithTheLastWKeysOldestFirst) {
  SlidingWindowCache cache(kSmallShape, 3);
  forward_numbered(cache, 2);
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{1, 2, 3}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{2, 3, 4}));
  EXPECT_EQ(cache.length(), 5);  // positions go on although two keys are gone
}

TEST(SlidingWindowCache, Case07AChunkLongerThanTheWindowAttendsBeforeItEvicts) {
  SlidingWindowCache cache(kSmallShape, 3);
  forward_numbered(cache, 3);
  const KeyValues kv = forward_numbered(cache, 4);  // two old keys may still be seen, by the first queries
  EXPECT_EQ(numbers_of(kv.keys), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(keys_seen(kv, 4), (Numbers{3, 3, 3, 3}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{5, 6, 7}));
}

TEST(SlidingWindowCache, WritesInPlaceWhereThereIsRoom) {
  SlidingWindowCache cache(kSmallShape, 4);
  const void* first = forward_numbered(cache, 2).keys_address;
  EXPECT_EQ(forward_numbered(cache, 1).keys_address, first);
  EXPECT_EQ(forward_numbered(cache, 1).keys_address, first);
  EXPECT_EQ(forward_numbered(cache, 1).keys_address, first);  // shifted, in the same buffer
}

TEST(SlidingWindowCache, HoldsBytesByTheFormulaForItsWindowAndNeverMore) {
  for (const int64_t B : {1, 3}) {
    SlidingWindowCache cache(kSmallShape, 3);
    EXPECT_EQ(cache.bytes(), 0);
    for (const int64_t T : {2, 1, 4, 1}) {
      forward_numbered(cache, T, B, torch::kFloat64);
      EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 3 * 4 * 8);  // 2·L·B·H·W·D·8
    }
  }
}

TEST(SlidingWindowCache, AWindowAboveTheContextIsTheContext) {
  SlidingWindowCache cache(kSmallShape, 1000);
  forward_numbered(cache, 1);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 1 * 2 * 8 * 4 * 4);
}

TEST(SlidingWindowCache, RefusesAWindowOfNothing) { EXPECT_THROW(SlidingWindowCache(kSmallShape, 0), c10::ValueError); }

}  // namespace
}  // namespace kvbook

// Chapter 6's own promises.
#include <gtest/gtest.h>

#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "tests/support/copy_counting_cache.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

void feed_singles(KVCache& cache, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) forward_numbered(cache, 1);
}

TEST(RingMask, AsksEachColumnForItsPosition) {
  // A ring of four slots holds 4, 5, 2, 3; tokens 6 and 7 stand behind. W = 4: token 6 sees 3 to 6, token 7 sees 4
  // to 7.
  EXPECT_TRUE(ring_mask({4, 5, 2, 3, 6, 7}, 6, 2, 4, torch::kCPU)
                  .equal(torch::tensor({{true, true, false, true, true, false},  //
                                        {true, true, false, false, true, true}})));
}

TEST(RingMask, HidesAColumnInWhichNothingCounts) {
  EXPECT_TRUE(ring_mask({kEmptySlot, 1}, 1, 1, 8, torch::kCPU).equal(torch::tensor({{false, true}})));
}

TEST(RingBufferCache, ATokenTakesThePlaceOfTheOneRPositionsBefore) {
  RingBufferCache cache(kSmallShape, 3);
  feed_singles(cache, 3);
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{3, 1, 2}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{3, 4, 2}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{3, 4, 5}));
  EXPECT_EQ(cache.length(), 6);
}

TEST(RingBufferCache, AFullWindowNeedsNoMaskForOneToken) {
  RingBufferCache cache(kSmallShape, 3);
  for (int64_t step = 0; step < 8; ++step) EXPECT_FALSE(forward_numbered(cache, 1).visible.defined()) << step;
}

TEST(RingBufferCache, SlotsToSpareHoldTokensThatNoQuerySees) {
  RingBufferCache cache(kSmallShape, /*window=*/3, /*spare=*/2);
  feed_singles(cache, 6);
  const Given last = forward_numbered(cache, 1);  // position 6 in slot 1
  EXPECT_EQ(numbers_of(last.keys), (Numbers{5, 6, 2, 3, 4}));
  EXPECT_TRUE(last.visible.equal(torch::tensor({{true, true, false, false, true}})));
}

TEST(RingBufferCache, KeysStayAtOneAddress) {
  RingBufferCache cache(kSmallShape, 3);
  const Given first = forward_numbered(cache, 2);
  for (int64_t step = 0; step < 6; ++step) {
    const Given next = forward_numbered(cache, 1);
    EXPECT_EQ(next.keys_address, first.keys_address);
    EXPECT_EQ(next.values_address, first.values_address);
  }
}

TEST(RingBufferCache, AChunkAttendsOverTheOldSlotsAndItselfAndIsStoredAtCommit) {
  RingBufferCache cache(kSmallShape, 4);
  feed_singles(cache, 5);
  EXPECT_EQ(cache.slots(), (Numbers{4, 1, 2, 3}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 3).keys), (Numbers{4, 1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(cache.slots(), (Numbers{4, 5, 6, 7}));
}

TEST(RingBufferCache, OfAChunkLongerThanTheRingTheEndIsStored) {
  RingBufferCache cache(kSmallShape, 3);
  forward_numbered(cache, 7);
  EXPECT_EQ(cache.slots(), (Numbers{6, 4, 5}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{6, 7, 5}));
}

TEST(RingBufferCache, AnAbandonedChunkLeavesTheRingAsItWas) {
  RingBufferCache cache(kSmallShape, 3);
  feed_singles(cache, 4);
  const torch::Tensor keys = numbered_keys(90, 2);
  cache.begin({torch::zeros({1, 2}, torch::kInt64)});
  for (int64_t layer = 0; layer < 2; ++layer) cache.update(layer, keys, keys);
  cache.abandon();
  EXPECT_EQ(cache.slots(), (Numbers{3, 1, 2}));
  EXPECT_EQ(cache.can_give_back(), 1);
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{3, 4, 2}));
}

struct RingSize {
  int64_t window, spare;
};

TEST(RingBufferCache, GivesBackAnyNumberUnwrappedAndThenOneMoreThanItHasToSpare) {
  for (const RingSize ring : {RingSize{1, 0}, {3, 0}, {3, 1}, {3, 2}, {2, 4}}) {
    RingBufferCache cache(kSmallShape, ring.window, ring.spare);
    for (int64_t held = 1; held <= 8; ++held) {
      forward_numbered(cache, 1);
      EXPECT_EQ(cache.can_give_back(), held <= ring.window + ring.spare ? held : ring.spare + 1)
          << "W = " << ring.window << ", k = " << ring.spare << ", " << held << " held";
    }
  }
}

TEST(RingBufferCache, RefusesToTakeBackMoreAndSaysWhatToDo) {
  RingBufferCache cache(kSmallShape, 3);
  feed_singles(cache, 5);
  try {
    cache.truncate(3);
    ADD_FAILURE() << "two tokens were taken back from a wrapped ring of W slots";
  } catch (const c10::IndexError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("at most 1"), std::string::npos);
    EXPECT_NE(std::string(error.what_without_backtrace()).find("reset()"), std::string::npos);
  }
  EXPECT_EQ(cache.slots(), (Numbers{3, 4, 2}));
  cache.truncate(4);
  EXPECT_EQ(cache.slots(), (Numbers{3, kEmptySlot, 2}));
  EXPECT_EQ(cache.can_give_back(), 0);  // the one before it is gone: its slot held the token taken back
  forward_numbered(cache, 1);
  EXPECT_EQ(cache.can_give_back(), 1);
}

TEST(RingBufferCache, AnAbandonedStepOnAFullRingCostsOneTokenOfWhatCanBeTakenBack) {
  RingBufferCache cache(kSmallShape, /*window=*/3, /*spare=*/1);
  feed_singles(cache, 6);
  EXPECT_EQ(cache.can_give_back(), 2);
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  cache.abandon();
  EXPECT_EQ(cache.can_give_back(), 1);
}

TEST(RingBufferCache, HoldsBytesByTheFormulaForItsSlots) {
  for (const int64_t B : {1, 3}) {
    RingBufferCache cache(kSmallShape, /*window=*/3, /*spare=*/2);
    EXPECT_EQ(cache.bytes(), 0);
    for (const int64_t T : {2, 1, 4, 1}) {
      forward_numbered(cache, T, B, torch::kFloat64);
      EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 5 * 4 * 8);  // 2·L·B·H·R·D·8
    }
  }
}

TEST(RingBufferCache, RefusesAWindowOfNothingAndLessThanNoSlotsToSpare) {
  EXPECT_THROW(RingBufferCache(kSmallShape, 0), c10::ValueError);
  EXPECT_THROW(RingBufferCache(kSmallShape, 3, -1), c10::ValueError);
}

}  // namespace
}  // namespace kvbook

// What a trace records of each forward, and how it is drawn.
#include "common/trace.h"

#include <gtest/gtest.h>

#include <sstream>

#include "common/trace_text.h"
#include "common/tracing_cache.h"
#include "tests/support/caches.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

using enum SlotState;
using States = std::vector<SlotState>;
using Numbers = std::vector<int64_t>;

TracedForward forward(int64_t first, int64_t T, Numbers before, Numbers after) {
  return {.first_position = first, .ids = Numbers(T, 7), .before = std::move(before), .after = std::move(after)};
}

TEST(SlotStates, ABufferMadeInTheFirstForwardHasEmptySlotsAfterTheNewOnes) {
  EXPECT_EQ(slot_states(forward(0, 2, {}, {0, 1, -1, -1})), (States{kNew, kNew, kEmpty, kEmpty}));
}

TEST(SlotStates, AGrowingCacheGetsAColumnForEveryToken) {
  EXPECT_EQ(slot_states(forward(2, 1, {0, 1}, {0, 1, 2})), (States{kHeld, kHeld, kNew}));
}

TEST(SlotStates, WhatAWindowShiftsOutIsEvicted) {  // W = 3
  EXPECT_EQ(slot_states(forward(2, 1, {0, 1, -1}, {1, 2, -1})), (States{kEvicted, kHeld, kNew}));
}

TEST(SlotStates, AChunkLongerThanTheWindowStandsBesideItAndIsPartlyEvicted) {  // W = 3, positions 5 to 7
  EXPECT_EQ(slot_states(forward(5, 3, {3, 4, -1}, {6, 7, -1})), (States{kEvicted, kEvicted, kEvicted, kNew, kNew}));
}

TEST(UncachedForward, HoldsNothingAndFeedsEverything) {
  const TracedForward all = uncached_forward({4, 5, 6});
  EXPECT_EQ(all.tokens(), 3);
  EXPECT_EQ(all.first_key(), 0);
  EXPECT_EQ(all.bytes, 0);
  EXPECT_EQ(slot_states(all), (States{kEvicted, kEvicted, kEvicted}));
  EXPECT_TRUE(all.visible.equal(torch::ones({3, 3}, torch::kBool).tril()));
}

class EveryCacheTraced : public testing::TestWithParam<CacheCase> {};

TEST_P(EveryCacheTraced, AForwardIsRecordedAsTheCacheSawIt) {  // that slots() is right, the conformance suite holds
  const auto inner = GetParam().make_cache(kSmallShape);
  std::vector<TracedForward> heard;
  TracingCache cache(*inner, [&](const TracedForward& f) { heard.push_back(f); });
  Numbers lengths = {3, 1, 1, 1};
  if (GetParam().takes_chunk_on_history()) lengths = {2, 3, 1, 1};
  for (const int64_t T : lengths) {
    Numbers want;  // the positions that it may see
    for (const int64_t position : cache.slots()) {
      if (position != kEmptySlot) want.push_back(position);
    }
    for (int64_t i = 0; i < T; ++i) want.push_back(cache.length() + i);
    const int64_t first = cache.length();
    forward_numbered(cache, T, 1, GetParam().dtype);
    const TracedForward& last = heard.back();
    EXPECT_EQ(last.first_position, first);
    EXPECT_EQ(last.tokens(), T);
    EXPECT_EQ(last.first_key(), want.front());
    EXPECT_EQ(last.visible.sizes(), (Numbers{T, static_cast<int64_t>(want.size())}));
    EXPECT_EQ(last.after, inner->slots());
    EXPECT_EQ(last.bytes, inner->bytes());
    EXPECT_TRUE(last.visible.narrow(1, static_cast<int64_t>(want.size()) - 1, 1).narrow(0, T - 1, 1).item<bool>());
  }
  EXPECT_EQ(heard.size(), lengths.size());
}

TEST_P(EveryCacheTraced, AForwardThatIsAbandonedIsNotHeardOf) {
  const auto inner = GetParam().make_cache(kSmallShape);
  int heard = 0;
  TracingCache cache(*inner, [&](const TracedForward&) { ++heard; });
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  cache.abandon();
  EXPECT_EQ(heard, 0);
  EXPECT_TRUE(cache.slots().empty());
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCacheTraced, testing::ValuesIn(cache_cases(chapters())),
                         [](const auto& info) { return info.param.name; });

TEST(TraceText, FitsEightyColumnsAtEverySize) {
  for (const int64_t slots : {1, 8, 40, 41, 512, 1024}) {
    for (const int64_t T : {int64_t{1}, int64_t{2}, slots}) {
      if (T > slots) continue;
      Numbers before(slots, kEmptySlot), after(slots, kEmptySlot);
      for (int64_t i = 0; i < slots; ++i) {
        if (i < slots - T) before[i] = i;
        after[i] = i;
      }
      TracedForward full = forward(slots - T, T, before, after);
      full.visible = torch::ones({T, slots}, torch::kBool).tril(slots - T);
      full.bytes = 75497472;
      std::istringstream text(TraceText(nullptr, false).legend() + TraceText(nullptr, false).row(full));
      for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST(TraceText, DrawsARowAndTheMatrixOfAChunk) {
  TracedForward chunk = forward(2, 2, {0, 1, -1, -1}, {0, 1, 2, 3});
  chunk.visible = torch::tensor({1, 1, 1, 0, 0, 1, 1, 1}, torch::kInt64).view({2, 4}).to(torch::kBool);
  const std::string text = TraceText(nullptr, false).row(chunk);
  EXPECT_NE(text.find("2-3    2  ##++ "), std::string::npos) << text;
  EXPECT_NE(text.find("    2  ###.\n      3  .###\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(TraceText(nullptr, true).row(chunk).find("\x1b[32m+"), std::string::npos);
}

}  // namespace
}  // namespace kvbook

// What a trace records of each forward, and how it is drawn.
#include "common/trace.h"

#include <gtest/gtest.h>

#include <numeric>
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

TracedForward forward(int64_t first, int64_t T, Numbers keys, Numbers after) {
  return {.first_position = first, .ids = Numbers(T, 7), .keys = std::move(keys), .after = std::move(after)};
}

TEST(SlotStates, ABufferMadeInTheFirstForwardHasEmptySlotsAfterTheNewOnes) {
  EXPECT_EQ(slot_states(forward(0, 2, {0, 1}, {0, 1, -1, -1})), (States{kNew, kNew, kEmpty, kEmpty}));
}

TEST(SlotStates, AGrowingCacheGetsAColumnForEveryToken) {
  EXPECT_EQ(slot_states(forward(2, 1, {0, 1, 2}, {0, 1, 2})), (States{kHeld, kHeld, kNew}));
}

TEST(SlotStates, WhatAWindowShiftsOutIsEvicted) {  // W = 3
  EXPECT_EQ(slot_states(forward(2, 1, {0, 1, 2}, {1, 2, -1})), (States{kEvicted, kHeld, kNew}));
}

TEST(SlotStates, AChunkLongerThanTheWindowStandsBesideItAndIsPartlyEvicted) {  // W = 3, positions 5 to 7
  EXPECT_EQ(slot_states(forward(5, 3, {3, 4, 5, 6, 7}, {6, 7, -1})),
            (States{kEvicted, kEvicted, kEvicted, kNew, kNew}));
}

TEST(SlotStates, ARingPutsTheNewTokenInThePlaceOfTheOldest) {  // W = 3
  EXPECT_EQ(slot_states(forward(4, 1, {3, 4, 2}, {3, 4, 2})), (States{kHeld, kNew, kHeld}));
}

TEST(SlotStates, AColumnThatCountsForNothingIsEmpty) {  // a token of a ring of 3 was taken back
  EXPECT_EQ(slot_states(forward(4, 1, {-1, 4, 2}, {-1, 4, 2})), (States{kEmpty, kNew, kHeld}));
}

TEST(UncachedForward, HoldsNothingAndFeedsEverything) {
  const TracedForward all = uncached_forward({4, 5, 6});
  EXPECT_EQ(all.tokens(), 3);
  EXPECT_EQ(all.keys, (Numbers{0, 1, 2}));
  EXPECT_EQ(all.bytes, 0);
  EXPECT_EQ(slot_states(all), (States{kEvicted, kEvicted, kEvicted}));
  EXPECT_TRUE(all.visible.equal(torch::ones({3, 3}, torch::kBool).tril()));
}

class EveryCacheTraced : public testing::TestWithParam<CacheCase> {};

TEST_P(EveryCacheTraced, AForwardIsRecordedAsTheCacheSawIt) {  // that slots() is right, the conformance suite holds
  const auto inner = GetParam().make_cache(kSmallShape);
  std::vector<TracedForward> heard;
  TracingCache tracing(*inner, [&](const TracedForward& f) { heard.push_back(f); });
  RecordingCache cache(tracing);
  Numbers lengths = {3, 1, 1, 1};
  if (GetParam().takes_chunk_on_history()) lengths = {2, 3, 1, 1};
  for (const int64_t T : lengths) {
    const int64_t first = cache.length();
    heard.clear();
    forward_numbered(cache, T, 1, GetParam().dtype);  // keys that say their position
    Numbers layers;                                   // each is heard of once
    for (const TracedForward& last : heard) {
      Numbers about = last.layers;
      if (about.empty()) about = {0, 1};
      layers.insert(layers.end(), about.begin(), about.end());
      EXPECT_EQ(last.first_position, first);
      EXPECT_EQ(last.tokens(), T);
      EXPECT_EQ(last.visible.sizes(), (Numbers{T, static_cast<int64_t>(last.keys.size())}));
      EXPECT_EQ(last.bytes, inner->bytes());
      for (const int64_t layer : about) {
        EXPECT_EQ(last.keys, numbers_of(cache.seen[layer].keys));
        EXPECT_EQ(last.after, inner->layer_slots(layer));
        Numbers seen, want;  // the last query sees itself and, at most, W - 1 before, each once
        for (int64_t j = 0; j < last.visible.size(1); ++j) {
          if (last.visible[T - 1][j].item<bool>()) seen.push_back(last.keys[j]);
        }
        const int64_t W = GetParam().windows_in(kSmallShape)[layer];
        for (int64_t p = std::max<int64_t>(0, first + T - W); p < first + T; ++p) want.push_back(p);
        std::sort(seen.begin(), seen.end());
        EXPECT_EQ(seen, want);
      }
    }
    std::sort(layers.begin(), layers.end());
    EXPECT_EQ(layers, (Numbers{0, 1}));
  }
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
      Numbers all(slots);
      std::iota(all.begin(), all.end(), 0);
      TracedForward full = forward(slots - T, T, all, all);
      full.visible = torch::ones({T, slots}, torch::kBool).tril(slots - T);
      full.bytes = 75497472;
      std::istringstream text(TraceText(nullptr, false).legend() + TraceText(nullptr, false).row(full));
      for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST(TraceText, CountsTheColumnsThatHoldNothing) {
  TracedForward two = forward(0, 2, Numbers(40, kEmptySlot), Numbers(40, kEmptySlot));
  two.keys[0] = two.after[0] = 0;
  two.keys[1] = two.after[1] = 1;
  two.visible = torch::zeros({2, 40}, torch::kBool);
  const std::string text = TraceText(nullptr, false).row(two);
  EXPECT_NE(text.find("keys 0 to 1, 38 empty across"), std::string::npos) << text;
}

TEST(TraceText, NamesTheLayersThatARowIsAboutWhereTheyDiffer) {
  TracedForward one = forward(7, 1, {6, 7}, {6, 7});
  one.visible = torch::ones({1, 2}, torch::kBool);
  EXPECT_EQ(TraceText(nullptr, false).row(one).find("L"), std::string::npos);
  one.layers = {1, 2};
  EXPECT_NE(TraceText(nullptr, false).row(one).find(" L1:7 "), std::string::npos);
  EXPECT_EQ(TraceText(nullptr, false).legend().find("L1:7"), std::string::npos);
  std::istringstream legend(TraceText(nullptr, false).legend(/*by_layer=*/true));
  bool named = false;
  for (std::string line; std::getline(legend, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    named = named || line.find("L1:7") == 0;
  }
  EXPECT_TRUE(named);
}

TEST(TraceText, DrawsARowAndTheMatrixOfAChunk) {
  TracedForward chunk = forward(2, 2, {0, 1, 2, 3}, {0, 1, 2, 3});
  chunk.visible = torch::tensor({1, 1, 1, 0, 0, 1, 1, 1}, torch::kInt64).view({2, 4}).to(torch::kBool);
  const std::string text = TraceText(nullptr, false).row(chunk);
  EXPECT_NE(text.find("2-3    2  ##++ "), std::string::npos) << text;
  EXPECT_NE(text.find("    2  ###.\n      3  .###\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(TraceText(nullptr, true).row(chunk).find("\x1b[32m+"), std::string::npos);
}

}  // namespace
}  // namespace kvbook

// Chapter 11's answers. The one that is a cache also passes the conformance suite (conformance_test).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/11_offload/answers/bandwidth.h"
#include "chapters/11_offload/answers/replacement.h"
#include "chapters/11_offload/answers/spread_offloaded_cache.h"
#include "chapters/11_offload/offloaded_cache.h"
#include "tests/support/golden.h"
#include "tests/support/metered_cache.h"
#include "tests/support/oracle.h"
#include "tests/support/spilling.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

// 11.1: spread those that stay ------------------------------------------------------------------------------------

Numbers leaving(int64_t L, int64_t N) {
  ModelShape shape = kFiveLayers;
  shape.layers = L;
  const SpreadOffloadedCache cache(shape, 16, N);
  Numbers layers;
  for (int64_t layer = 0; layer < L; ++layer) {
    if (cache.leaves(layer)) layers.push_back(layer);
  }
  return layers;
}

TEST(SpreadOffloadedCache, SpreadsTheLayersThatLeave) {
  EXPECT_EQ(leaving(5, 1), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(leaving(5, 2), (Numbers{0, 1, 2, 4}));
  EXPECT_EQ(leaving(5, 3), (Numbers{0, 2, 4}));
  EXPECT_EQ(leaving(5, 4), (Numbers{1, 4}));
  EXPECT_EQ(leaving(5, 5), (Numbers{}));
  EXPECT_EQ(leaving(12, 7), (Numbers{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(leaving(12, 10), (Numbers{3, 7, 11}));
}

// ANCHOR: apart
TEST(SpreadOffloadedCache, KeepsThemApartUnlessHalfOfTheLayersOrFewerHaveRoom) {
  for (int64_t L = 2; L <= 40; ++L) {
    for (int64_t N = 1; N < L; ++N) {
      const Numbers layers = leaving(L, N);
      const int64_t M = L - N + 1;
      ASSERT_EQ(static_cast<int64_t>(layers.size()), M);
      EXPECT_GE(layers[0], L / M - 1) << "L = " << L << ", N = " << N;
      int64_t least = L;  // layers that stay between two that leave
      for (int64_t i = 1; i < M; ++i) least = std::min(least, layers[i] - layers[i - 1] - 1);
      EXPECT_GE(least, L / M - 1) << "L = " << L << ", N = " << N;
      EXPECT_EQ(least == 0, N <= L / 2) << "L = " << L << ", N = " << N;
    }
  }
}
// ANCHOR_END: apart

// ANCHOR: read
TEST(SpreadOffloadedCache, AForwardReadsThePastOfEveryLayerThatLeavesOnceAndTheChaptersOneLayerMore) {
  const Numbers spread_reads = {5, 4, 3, 2, 0}, chapter_reads = {5, 5, 4, 2, 0};  // layers, N = 1 to 5
  for (int64_t N = 1; N <= 5; ++N) {
    SpreadOffloadedCache spread(kFiveLayers, 16, N);
    OffloadedCache chapter(kFiveLayers, 16, N);
    feed_ones(spread, 4);
    feed_ones(chapter, 4);
    for (const int64_t T : {1, 2}) {
      const int64_t P = spread.length(), before = spread.bytes_read(), chapter_before = chapter.transfers().bytes_read;
      feed_ones(spread, T);
      feed_ones(chapter, T);
      const int64_t first = N < 5 ? T : 0;  // it is read for the next forward, with the new tokens
      EXPECT_EQ(spread.bytes_read() - before, (spread_reads[N - 1] * P + first) * kFiveLayersToken) << "N = " << N;
      EXPECT_EQ(chapter.transfers().bytes_read - chapter_before, (chapter_reads[N - 1] * P + first) * kFiveLayersToken)
          << "N = " << N;
    }
  }
}
// ANCHOR_END: read

// ANCHOR: ahead
TEST(SpreadOffloadedCache, FetchesAheadWhereALayerThatStaysLiesBetween) {
  const std::vector<Numbers> want = {{}, {4}, {2, 4}, {4}, {}};  // and the first, at commit
  for (int64_t N = 1; N <= 5; ++N) {
    SpreadOffloadedCache cache(kFiveLayers, 16, N);
    feed_ones(cache, 4);
    feed_ones(cache, 1);
    EXPECT_EQ(cache.fetched_ahead(), want[N - 1]) << "N = " << N;
  }
}

TEST(SpreadOffloadedCache, TheNextLayerIsOnItsWayFromTheFirstLayerThatStaysOn) {
  SpreadOffloadedCache cache(kFiveLayers, 16, 3);  // 0, 2 and 4 leave
  feed_ones(cache, 4);
  const int64_t before = cache.bytes_read();
  const Numbers asked = {0, 1, 1, 2, 2};  // layers' pasts, behind each update
  feed_ones(cache, 1, [&](int64_t layer) {
    EXPECT_EQ(cache.bytes_read() - before, asked[layer] * 4 * kFiveLayersToken) << "behind layer " << layer;
  });
}
// ANCHOR_END: ahead

TEST(SpreadOffloadedCache, HoldsSoManyLayersInMemory) {
  for (int64_t N = 1; N <= 5; ++N) {
    SpreadOffloadedCache inner(kFiveLayers, 16, N);
    MeteredCache cache(inner);
    feed_ones(cache, 3);
    feed_ones(cache, 1);
    EXPECT_EQ(inner.bytes(), N * 16 * kFiveLayersToken);
    EXPECT_EQ(cache.held(), N * 16 * kFiveLayersToken);  // the tensors, weighed
  }
}

class SpreadOnTiny : public testing::Test {  // three layers: with two in memory 0 and 2 leave
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint("tiny");
  Gpt2 model_ = Gpt2(checkpoint_);
  const torch::Tensor ids_ = to_row({12, 80, 5, 33, 96, 2, 41, 7, 7, 60, 3, 19});
  const torch::Tensor want_ = full_recompute(checkpoint_, ids_, 64);
};

TEST_F(SpreadOnTiny, HasTheLogitsOfTheFullRecomputeHoweverTheyAreFed) {
  for (const Numbers& sizes : {Numbers{12}, {5, 1, 1, 1, 3, 1}, {1, 4, 7}}) {
    PreallocatedCache in_memory(model_->shape(), 64);
    const torch::Tensor same = in_chunks(model_, in_memory, ids_, sizes);
    for (const int64_t N : {1, 2, 3}) {
      SpreadOffloadedCache cache(model_->shape(), 64, N);
      const torch::Tensor got = in_chunks(model_, cache, ids_, sizes);
      EXPECT_LE(max_abs_diff(got, want_), 1e-9) << "N = " << N;
      EXPECT_EQ(max_abs_diff(got, same), 0.0) << "N = " << N;
    }
  }
}

TEST_F(SpreadOnTiny, AFaultAtAnyLayerCostsNothing) {
  for (const int64_t N : {1, 2}) {
    for (int64_t last = 0; last < 3; ++last) {
      SpreadOffloadedCache cache(model_->shape(), 64, N);
      in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
      cache.begin({ids_.narrow(1, 0, 4)});
      const ModelShape shape = model_->shape();
      const torch::Tensor bad = torch::full({1, shape.kv_heads, 4, shape.head_size}, 1e4, torch::kFloat64);
      for (int64_t layer = 0; layer <= last; ++layer) cache.update(layer, bad, bad);
      cache.abandon();
      const torch::Tensor rest = in_chunks(model_, cache, ids_.narrow(1, 6, 6), {1, 5});
      EXPECT_LE(max_abs_diff(rest, want_.narrow(1, 6, 6)), 1e-9) << "N = " << N << ", behind layer " << last;
    }
  }
}

TEST_F(SpreadOnTiny, AForwardGivenUpAtOnceDropsAFetchThatIsAskedForAgain) {
  SpreadOffloadedCache cache(model_->shape(), 64, /*resident_layers=*/2);
  for (int round = 0; round < 20; ++round) {  // whether the fetch has begun is a matter of luck
    cache.reset();
    std::vector<torch::Tensor> got;
    for (const torch::Tensor& id : ids_.split(1, 1)) {
      got.push_back(model_->logits(model_->hidden({id}, cache)));
      cache.begin({id});
      cache.abandon();
    }
    EXPECT_LE(max_abs_diff(torch::cat(got, 1), want_), 1e-9);
  }
}

TEST_F(SpreadOnTiny, AWriteThatFailsIsNotCommittedAndARetryIsRight) {
  const int64_t layer_in_file = key_value_bytes(model_->shape(), 1, 64, 8) / 3;
  for (const int64_t written : {int64_t{0}, layer_in_file}) {  // layer 0 cannot be written; layer 2, the last, cannot
    SpreadOffloadedCache cache(model_->shape(), 64, /*resident_layers=*/2);
    in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
    {
      const FileSizeLimit limit(written);
      EXPECT_THROW(model_->hidden({ids_.narrow(1, 6, 1)}, cache), c10::Error);
      EXPECT_EQ(cache.length(), 6);
    }
    const torch::Tensor rest = in_chunks(model_, cache, ids_.narrow(1, 6, 6), {1, 5});
    EXPECT_LE(max_abs_diff(rest, want_.narrow(1, 6, 6)), 1e-9);
  }
}

TEST(SpreadOffloadedCache, RefusesNoCapacityAndNoLayerInMemory) {
  EXPECT_THROW(SpreadOffloadedCache(kFiveLayers, 0, 2), c10::ValueError);
  EXPECT_THROW(SpreadOffloadedCache(kFiveLayers, 16, 0), c10::ValueError);
  SpreadOffloadedCache cache(kFiveLayers, 4, 2, "/nowhere/at/all");
  EXPECT_THROW(feed_ones(cache, 1), c10::Error);
  EXPECT_THROW(cache.begin({torch::zeros({1, 5}, torch::kInt64)}), c10::IndexError);
}

// 11.2: the usual rule --------------------------------------------------------------------------------------------

constexpr int64_t kL = 12;

/// In steps 100 and on, when nothing is left of the beginning.
int64_t found_in(GivesWay rule, int64_t N, int64_t steps) {
  const Numbers found = found_in_memory(rule, kL, N, 100 + steps);
  return std::accumulate(found.begin() + 100, found.end(), int64_t{0});
}

// ANCHOR: rules
TEST(FoundInMemory, NothingByTheUsualRuleUnlessAllLayersHaveRoom) {
  for (int64_t N = 1; N < kL; ++N) EXPECT_EQ(found_in(GivesWay::kUsedLongestAgo, N, 1), 0) << "N = " << N;
  EXPECT_EQ(found_in(GivesWay::kUsedLongestAgo, kL, 1), kL);
}

TEST(FoundInMemory, AllThatStayWhereTheOthersShareOneBuffer) {
  for (int64_t N = 1; N < kL; ++N) EXPECT_EQ(found_in(GivesWay::kTheLast, N, 1), N - 1) << "N = " << N;
  EXPECT_EQ(found_in(GivesWay::kTheLast, kL, 1), kL);
}

TEST(FoundInMemory, ByTheBestChoiceTwelveTimesNLessOneInElevenSteps) {
  for (int64_t N = 1; N <= kL; ++N) {
    EXPECT_EQ(found_in(GivesWay::kNeededLast, N, 11), 12 * (N - 1)) << "N = " << N;
    const Numbers found = found_in_memory(GivesWay::kNeededLast, kL, N, 40);
    for (size_t step = 1; step < found.size(); ++step) {
      EXPECT_TRUE(found[step] == N - 1 || found[step] == N) << "N = " << N << ", " << found[step] << " found";
    }
  }
}
// ANCHOR_END: rules

// ANCHOR: best
/// The most that any choice finds: every set of layers in memory is tried, as bits.
int64_t best_by_trying_all(int64_t L, int64_t N, int64_t steps) {
  std::map<int64_t, int64_t> most = {{0, 0}};  // found so far, for each set that can be there
  for (int64_t now = 0; now < steps * L; ++now) {
    const int64_t wanted = int64_t{1} << (now % L);
    std::map<int64_t, int64_t> next;
    const auto reach = [&](int64_t set, int64_t found) { next[set] = std::max(next[set], found); };
    for (const auto& [set, found] : most) {
      if (set & wanted) {
        reach(set, found + 1);
      } else if (std::popcount(static_cast<uint64_t>(set)) < N) {
        reach(set | wanted, found);
      } else {
        for (int64_t gone = 1; gone <= set; gone <<= 1) {
          if (set & gone) reach((set ^ gone) | wanted, found);
        }
      }
    }
    most = next;
  }
  int64_t best = 0;
  for (const auto& [set, found] : most) best = std::max(best, found);
  return best;
}

TEST(FoundInMemory, NoChoiceFindsMoreThanTheOneThatKnowsTheFuture) {
  for (int64_t L = 1; L <= 6; ++L) {
    for (int64_t N = 1; N <= L; ++N) {
      const Numbers found = found_in_memory(GivesWay::kNeededLast, L, N, 8);
      EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), best_by_trying_all(L, N, 8))
          << "L = " << L << ", N = " << N;
    }
  }
}
// ANCHOR_END: best

TEST(FoundInMemory, RefusesNoRoomNoLayerAndNoStep) {
  EXPECT_THROW(found_in_memory(GivesWay::kTheLast, 0, 1, 1), c10::ValueError);
  EXPECT_THROW(found_in_memory(GivesWay::kTheLast, 3, 0, 1), c10::ValueError);
  EXPECT_THROW(found_in_memory(GivesWay::kTheLast, 3, 1, 0), c10::ValueError);
}

// 11.3: how fast the disk must be ---------------------------------------------------------------------------------

// ANCHOR: figures
constexpr ModelShape kSevenB = {
    .layers = 32, .heads = 32, .kv_heads = 32, .head_size = 128, .context = 32768, .vocabulary = 32000};
constexpr int64_t kTwoBytes = 128 * 2, kEightBits = 128 + 4;  // of a vector: numbers; codes and a scale, as chapter 9

std::string needed(int64_t tokens, int64_t vector_bytes) {
  const OffloadedStep step{.shape = kSevenB, .tokens = tokens, .vector_bytes = vector_bytes, .step_seconds = 0.050};
  return fmt::format("{:.1f} MB in {:.2f} ms: {:.1f} GB/s", bytes_of_a_layer(step) / 1e6, 50.0 / 32,
                     needed_bandwidth(step) / 1e9);
}

TEST(NeededBandwidth, HasTheFiguresOfTheAnswer) {
  EXPECT_EQ(needed(4096, kTwoBytes), "67.1 MB in 1.56 ms: 42.9 GB/s");
  EXPECT_EQ(needed(32768, kTwoBytes), "536.9 MB in 1.56 ms: 343.6 GB/s");
  EXPECT_EQ(needed(4096, kEightBits), "34.6 MB in 1.56 ms: 22.1 GB/s");
  EXPECT_EQ(needed(32768, kEightBits), "276.8 MB in 1.56 ms: 177.2 GB/s");
  const auto at_seven_gigabytes = [](int64_t vector_bytes) {
    return fmt::format("{:.0f}", tokens_at(7e9, {kSevenB, /*tokens=*/1, vector_bytes, /*step_seconds=*/0.050}));
  };
  EXPECT_EQ(at_seven_gigabytes(kTwoBytes), "668");
  EXPECT_EQ(at_seven_gigabytes(kEightBits), "1295");
}
// ANCHOR_END: figures

// ANCHOR: by_bytes
TEST(NeededBandwidth, MovesTheWholeCacheInTheTimeOfAStep) {
  const OffloadedStep step{.shape = kSevenB, .tokens = 4096, .vector_bytes = kTwoBytes, .step_seconds = 0.050};
  EXPECT_DOUBLE_EQ(needed_bandwidth(step) * 0.050, static_cast<double>(key_value_bytes(kSevenB, 1, 4096, 2)));
  EXPECT_NEAR(tokens_at(needed_bandwidth(step), step), 4096, 1e-6);
}
// ANCHOR_END: by_bytes

}  // namespace
}  // namespace kvbook

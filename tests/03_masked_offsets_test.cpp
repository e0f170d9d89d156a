// Chapter 3's own promises.
#include <gtest/gtest.h>

#include "chapters/03_masked_offsets/causal_mask.h"
#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "common/cached_session.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

TEST(CausalMask, KnowsTheOffset) {
  const torch::Tensor two_old_three_new = torch::tensor(
      {{true, true, true, false, false}, {true, true, true, true, false}, {true, true, true, true, true}});
  EXPECT_TRUE(causal_mask(2, 3, torch::kCPU).equal(two_old_three_new));
  EXPECT_TRUE(causal_mask(0, 2, torch::kCPU).equal(torch::tensor({{true, false}, {true, true}})));
  EXPECT_TRUE(causal_mask(3, 1, torch::kCPU).equal(torch::ones({1, 4}, torch::kBool)));
}

TEST(MaskedOffsetsCache, TakesAChunkOnHistoryAndMasksItByItsOffset) {
  MaskedOffsetsCache cache(kSmallShape);
  forward_numbered(cache, 2);
  const KeyValues kv = forward_numbered(cache, 3);
  EXPECT_EQ(numbers_of(kv.keys), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_TRUE(kv.visible.equal(causal_mask(2, 3, torch::kCPU)));
  EXPECT_FALSE(forward_numbered(cache, 1).visible.defined());
}

TEST(MaskedOffsetsCache, HoldsBytesByTheFormulaForTheTokensThatItHas) {
  for (const int64_t B : {1, 3}) {
    MaskedOffsetsCache cache(kSmallShape);
    forward_numbered(cache, 2, B, torch::kBFloat16);
    forward_numbered(cache, 3, B, torch::kBFloat16);
    EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 5 * 4 * 2);  // 2·L·B·H·P·D·2
  }
}

TEST(Turns, OnOneCacheGiveTheTokensOfTheJoinedPrompt) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  for (const int64_t chunk : {1, 2, 100}) {
    CachedSession session(Gpt2(checkpoint), std::make_unique<MaskedOffsetsCache>(checkpoint.config.shape()));
    Numbers joined;
    for (const Numbers& input : {Numbers{5, 6, 7}, {8}, {9, 10, 11, 12}}) {
      joined.insert(joined.end(), input.begin(), input.end());
      const Generation answer = session.generate(to_row(input), {.new_tokens = 6, .chunk = chunk});
      EXPECT_EQ(to_ids(answer.new_ids), to_ids(greedy_recompute(checkpoint, to_row(joined), 64, 6)));
      const Numbers said = to_ids(answer.new_ids);
      joined.insert(joined.end(), said.begin(), said.end());
    }
  }
}

TEST(Turns, ATurnThatPassesTheContextIsRefusedAndTheSessionGoesOn) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  CachedSession session(Gpt2(checkpoint), std::make_unique<MaskedOffsetsCache>(checkpoint.config.shape()));
  const Numbers first = to_ids(session.generate(to_row({3, 1, 4}), {.new_tokens = 2}).new_ids);
  EXPECT_THROW(session.generate(to_row({1, 2, 3, 4}), {.new_tokens = 1}), c10::IndexError);
  const Generation answer = session.generate(to_row({1}), {.new_tokens = 2});
  Numbers joined = {3, 1, 4};
  joined.insert(joined.end(), first.begin(), first.end());
  joined.push_back(1);
  EXPECT_EQ(to_ids(answer.new_ids), to_ids(greedy_recompute(checkpoint, to_row(joined), 8, 2)));
}

}  // namespace
}  // namespace kvbook

// What the conformance suite does not ask, because it knows beforehand what kind of cache it has.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/copy_counting_cache.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"
#include "workshop/checker/checked_cache.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

std::unique_ptr<KVCache> small_cache(int64_t capacity = kSmallShape.context) {
  return make_checked_cache(kSmallShape, {.window = kSmallShape.context, .capacity = capacity});
}

/// Feeds five tokens to a fresh cache in chunks of these sizes and compares all logits with those of a pass without
/// one.
void expect_the_logits_of_the_full_pass(const std::vector<int64_t>& sizes) {
  SCOPED_TRACE(fmt::format("fed as {}", sizes));
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const auto cache = make_checked_cache(model->shape(), default_cache_options(model->shape()));
  const int64_t T = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5}).narrow(1, 0, T);
  EXPECT_LE(max_abs_diff(in_chunks(model, *cache, ids, sizes), full_recompute(checkpoint, ids, T)), 1e-9);
}

TEST(Workshop, APromptGivesTheLogitsOfTheFullPass) {
  for (const int64_t T : {1, 2, 5}) expect_the_logits_of_the_full_pass({T});
}

TEST(Workshop, TokenByTokenGivesTheLogitsOfTheFullPass) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{1, 1}, {4, 1}, {2, 1, 1, 1}}) {
    expect_the_logits_of_the_full_pass(sizes);
  }
}

/// Grown token by token, or made once for all of the context: both are kept memory told truly.
TEST(Workshop, BytesAreThoseOfTheFormulaForSomeNumberOfSlots) {
  for (const int64_t B : {1, 3}) {
    const auto cache = small_cache();
    EXPECT_EQ(cache->bytes(), 0);
    bool fixed = false;
    for (const int64_t T : {3, 1, 1}) {
      forward_numbered(*cache, T, B, torch::kFloat64);
      const int64_t held = cache->length();
      SCOPED_TRACE(fmt::format("{} tokens in each of {} rows, float64", held, B));
      const int64_t whole = key_value_bytes(kSmallShape, B, kSmallShape.context, 8);
      if (held == 3) fixed = cache->bytes() == whole;
      EXPECT_EQ(cache->bytes(), fixed ? whole : key_value_bytes(kSmallShape, B, held, 8));
    }
  }
}

TEST(Workshop, KeysAndValuesStayWhereTheyAre) {
  const auto cache = small_cache();
  const Given first = forward_numbered(*cache, 2);
  for (const int64_t T : {1, 1, 2, 1}) {
    const Given next = forward_numbered(*cache, T);
    SCOPED_TRACE(fmt::format("{} tokens held", cache->length()));
    EXPECT_TRUE(next.keys_address == first.keys_address) << "the keys lie somewhere else than before";
    EXPECT_TRUE(next.values_address == first.values_address) << "the values lie somewhere else than before";
  }
}

TEST(Workshop, AStepOnAFullWindowCopiesItsTokenAndNothingElse) {
  const auto inner = make_checked_cache(kSmallShape, {.window = 3, .capacity = kSmallShape.context});
  CopyCountingCache cache(*inner);
  for (int64_t step = 0; step < 8; ++step) forward_numbered(cache, 1);
  EXPECT_EQ(cache.copied(), Numbers(8, key_value_bytes(kSmallShape, 1, 1, 4)));
  EXPECT_EQ(cache.bytes(), key_value_bytes(kSmallShape, 1, 3, 4));
}

TEST(Workshop, ATokenTooManyIsRefusedBeforeAnythingIsWritten) {
  const auto cache = small_cache(/*capacity=*/4);
  forward_numbered(*cache, 3);
  const int64_t bytes = cache->bytes();
  const auto begin = [&](int64_t T) { cache->begin({torch::zeros({1, T}, torch::kInt64)}); };
  {
    SCOPED_TRACE("3 of 4 slots taken, 2 tokens come");
    EXPECT_THROW(begin(2), c10::IndexError);
    EXPECT_EQ(cache->length(), 3);
    EXPECT_EQ(cache->bytes(), bytes);
  }
  EXPECT_EQ(numbers_of(forward_numbered(*cache, 1).keys), (Numbers{0, 1, 2, 3}));
  SCOPED_TRACE("all of 4 slots taken, 1 token comes");
  EXPECT_THROW(begin(1), c10::IndexError);
  EXPECT_EQ(cache->length(), 4);
}

}  // namespace
}  // namespace kvbook

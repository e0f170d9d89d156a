// The stop-watch and memory meter that the throughput table puts around a cache.
#include "common/measured_cache.h"

#include <gtest/gtest.h>

#include "chapters/02_cat_cache/cat_cache.h"
#include "chapters/04_preallocated/preallocated_cache.h"
#include "common/throughput.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

TEST(MeasuredCache, NotesEveryCommittedForwardAndNoOther) {
  PreallocatedCache inner(kSmallShape, 8);
  MeasuredCache cache(inner);
  forward_numbered(cache, 3);
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  cache.abandon();
  forward_numbered(cache, 1);
  ASSERT_EQ(cache.forwards().size(), 2U);
  EXPECT_GT(cache.forwards()[1].seconds, 0.0);
  EXPECT_EQ(inner.length(), 4);
}

TEST(MeasuredCache, SeesOldAndNewAtOnceInACatAndNothingMoreInAPreallocatedBuffer) {
  CatCache cat(kSmallShape);
  PreallocatedCache preallocated(kSmallShape, 8);
  MeasuredCache measured_cat(cat), measured_preallocated(preallocated);
  for (int64_t T : {4, 1}) {
    forward_numbered(measured_cat, T);
    forward_numbered(measured_preallocated, T);
  }
  // Keys or values of one layer take 2 heads · 4 · 4 bytes a token: 128 with 4 tokens, 160 with 5. The step begins with
  // four times 128; each of the four in turn becomes 160 before its 128 are released: most at the last, 3·160 + 128 +
  // 160.
  EXPECT_EQ(measured_cat.forwards()[1].peak_bytes, 768);
  EXPECT_EQ(measured_preallocated.forwards()[1].peak_bytes, preallocated.bytes());
}

TEST(MeasuredCache, MemoryMadeInsideIsGoneWhenItIsReleasedOutside) {
  CatCache cat(kSmallShape);
  MeasuredCache cache(cat);
  const torch::Tensor keys = numbered_keys(0, 4, 1, torch::kFloat32);
  cache.begin({torch::zeros({1, 4}, torch::kInt64)});
  for (int64_t layer = 0; layer < kSmallShape.layers; ++layer) cache.update(layer, keys, keys);  // what it returns goes
  cache.commit();
  // Most in the second layer: four times 128 bytes of keys and values, and 16 for its mask and as many for the ones
  // that the mask is cut from. The first layer's mask was released here, not in the cache.
  EXPECT_EQ(cache.forwards()[0].peak_bytes, 4 * 128 + 2 * 16);
}

TEST(MeasuredCache, RefusesWhatTheInnerCacheRefusesAndMeasuresOn) {
  PreallocatedCache inner(kSmallShape, 4);
  MeasuredCache cache(inner);
  const torch::Tensor key = torch::zeros({1, 2, 1, 4});
  EXPECT_THROW(cache.update(0, key, key), c10::ValueError);
  EXPECT_THROW(cache.begin({torch::zeros({1, 5}, torch::kInt64)}), c10::IndexError);
  forward_numbered(cache, 1);
  ASSERT_EQ(cache.forwards().size(), 1U);
  EXPECT_EQ(cache.forwards()[0].peak_bytes, inner.bytes());
}

TEST(Statistics, MedianAndPercentileAreThoseOfTheSortedSamples) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(percentile_99(hundred), 99);
  EXPECT_DOUBLE_EQ(percentile_99({5}), 5);
  EXPECT_THROW(median({}), c10::ValueError);
}

TEST(WeightBytes, Case18OfGpt2AreAllParametersButThePositionTable) {
  Checkpoint checkpoint{gpt2_124m_config(), {}};
  for (const auto& [name, shape] : weight_shapes(checkpoint.config)) {
    checkpoint.weights[name] = torch::empty(shape, torch::kFloat32);
  }
  EXPECT_EQ(weight_bytes_per_token(checkpoint), (124439808 - 1024 * 768) * 4);  // 494.6 MB
}

}  // namespace
}  // namespace kvbook

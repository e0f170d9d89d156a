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
  const int64_t layer_half = 1 * 2 * 5 * 4 * 4;  // keys of one layer: B·H·(P + T)·D·4 bytes
  EXPECT_GE(measured_cat.forwards()[1].peak_bytes, cat.bytes() + layer_half - 2 * 2 * 2 * 4 * 4);
  EXPECT_LE(measured_preallocated.forwards()[1].peak_bytes, preallocated.bytes() + 512);  // positions and the like
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

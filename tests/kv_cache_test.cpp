// The rules of the seam itself, on the simplest cache that keeps them.
#include "common/kv_cache.h"

#include <gtest/gtest.h>

#include "tests/support/caches.h"

namespace kvbook {
namespace {

constexpr ModelShape kShape = {.layers = 2, .heads = 2, .kv_heads = 2, .head_size = 4, .context = 8, .vocabulary = 16};

Step step_of(int64_t B, int64_t T) { return {torch::zeros({B, T}, torch::kInt64)}; }
torch::Tensor key_of(int64_t B, int64_t T) { return torch::ones({B, 2, T, 4}); }

/// Runs `call` and returns the first line of what it throws; empty if it throws nothing.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

void forward(KVCache& cache, int64_t B, int64_t T) {
  cache.begin(step_of(B, T));
  for (int64_t layer = 0; layer < kShape.layers; ++layer) cache.update(layer, key_of(B, T), key_of(B, T));
  cache.commit();
}

class EveryCache : public testing::TestWithParam<CacheCase> {
 protected:
  std::unique_ptr<KVCache> cache_ = GetParam().make_cache(kShape);
};

TEST_P(EveryCache, RefusesIdsThatAreNotRowsOfTokensAndChangesNothing) {
  forward(*cache_, 1, 3);
  const int64_t bytes = cache_->bytes();
  EXPECT_NE(error_of([&] { cache_->begin({torch::Tensor()}); }).find("ids"), std::string::npos);
  EXPECT_NE(error_of([&] { cache_->begin({torch::zeros({3}, torch::kInt64)}); }).find("[B, T]"), std::string::npos);
  EXPECT_NE(error_of([&] { cache_->begin({torch::zeros({1, 1})}); }).find("int64"), std::string::npos);
  EXPECT_NE(error_of([&] { cache_->begin(step_of(1, 0)); }).find("no token"), std::string::npos);
  EXPECT_EQ(cache_->length(), 3);
  EXPECT_EQ(cache_->bytes(), bytes);
}

TEST_P(EveryCache, RefusesKeysOfAnotherShapeAndSaysWhichWasExpected) {
  cache_->begin(step_of(1, 2));
  const std::string error = error_of([&] { cache_->update(0, key_of(1, 3), key_of(1, 3)); });
  EXPECT_NE(error.find("[1, 2, 3, 4]"), std::string::npos) << error;
  EXPECT_NE(error.find("[1, 2, 2, 4]"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { cache_->update(0, key_of(1, 2), key_of(1, 1)); }).find("value"), std::string::npos);
}

TEST_P(EveryCache, RefusesAKeyAndAValueOfDifferentDtypes) {
  cache_->begin(step_of(1, 2));
  EXPECT_THROW(cache_->update(0, key_of(1, 2), key_of(1, 2).to(torch::kDouble)), c10::ValueError);
}

TEST_P(EveryCache, RefusesALayerThatIsNotThereOrComesTwice) {
  cache_->begin(step_of(1, 2));
  EXPECT_THROW(cache_->update(-1, key_of(1, 2), key_of(1, 2)), c10::ValueError);
  EXPECT_THROW(cache_->update(2, key_of(1, 2), key_of(1, 2)), c10::ValueError);
  cache_->update(0, key_of(1, 2), key_of(1, 2));
  EXPECT_NE(error_of([&] { cache_->update(0, key_of(1, 2), key_of(1, 2)); }).find("twice"), std::string::npos);
}

TEST_P(EveryCache, RefusesAnUpdateOutsideAForward) {
  EXPECT_NE(error_of([&] { cache_->update(0, key_of(1, 2), key_of(1, 2)); }).find("begin"), std::string::npos);
  forward(*cache_, 1, 2);
  EXPECT_NE(error_of([&] { cache_->update(0, key_of(1, 1), key_of(1, 1)); }).find("begin"), std::string::npos);
}

TEST_P(EveryCache, Case08CommitAssertsThatEveryLayerWasUpdated) {
  EXPECT_THROW(cache_->commit(), c10::Error);
  cache_->begin(step_of(1, 2));
  cache_->update(0, key_of(1, 2), key_of(1, 2));
  EXPECT_THROW(cache_->commit(), c10::Error);
  EXPECT_EQ(cache_->length(), 0);
}

TEST_P(EveryCache, CommitsOnceAForward) {
  forward(*cache_, 1, 3);
  EXPECT_EQ(cache_->length(), 3);
  EXPECT_THROW(cache_->commit(), c10::Error);
  EXPECT_EQ(cache_->length(), 3);
}

TEST_P(EveryCache, HasALengthForEveryRowItHoldsAndForNoOther) {
  EXPECT_EQ(cache_->length(0), 0);
  forward(*cache_, 3, 2);
  EXPECT_EQ(cache_->length(2), 2);
  EXPECT_THROW(cache_->length(3), c10::IndexError);
  EXPECT_THROW(cache_->length(-1), c10::IndexError);
}

TEST_P(EveryCache, ConstructorRefusesAShapeWithoutLayers) {
  ModelShape shape = kShape;
  shape.layers = 0;
  EXPECT_THROW(GetParam().make_cache(shape), c10::ValueError);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCache, testing::ValuesIn(cache_cases(chapters())),
                         [](const auto& info) { return info.param.name; });

TEST(KeyValueBytes, OfGpt2With124MParametersAre73728ATokenInFloat32) {
  const ModelShape gpt2 = {
      .layers = 12, .heads = 12, .kv_heads = 12, .head_size = 64, .context = 1024, .vocabulary = 50257};
  EXPECT_EQ(key_value_bytes(gpt2, 1, 1, 4), 73728);
  EXPECT_EQ(key_value_bytes(gpt2, 1, 1024, 4), 75497472);
}

}  // namespace
}  // namespace kvbook

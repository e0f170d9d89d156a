// The exercises' answers, a section a chapter. Those that are caches also pass the conformance suite
// (conformance_test).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "chapters/01_naive/answers/sampling.h"
#include "chapters/01_naive/answers/work.h"
#include "chapters/02_cat_cache/answers/cat_traffic.h"
#include "chapters/02_cat_cache/answers/joint_cat_cache.h"
#include "chapters/02_cat_cache/cat_cache.h"
#include "chapters/03_masked_offsets/answers/float_mask.h"
#include "chapters/03_masked_offsets/answers/prefix_cache.h"
#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "chapters/04_preallocated/answers/doubling_cache.h"
#include "chapters/04_preallocated/answers/planning.h"
#include "chapters/04_preallocated/answers/token_major_cache.h"
#include "chapters/05_sliding_window/answers/late_shift_cache.h"
#include "chapters/05_sliding_window/answers/news.h"
#include "chapters/05_sliding_window/answers/sink_cache.h"
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "chapters/06_ring_buffer/answers/direct_chunk_ring_cache.h"
#include "chapters/06_ring_buffer/answers/ordered_ring_cache.h"
#include "chapters/06_ring_buffer/answers/sink_ring_cache.h"
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "chapters/07_ragged_batch/answers/mixed_batch.h"
#include "chapters/07_ragged_batch/answers/movable_rows.h"
#include "chapters/07_ragged_batch/answers/shortest_first.h"
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "chapters/chapters.h"
#include "common/attention.h"
#include "common/generate.h"
#include "common/model_source.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/operation_counter.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

/// One forward of T tokens by hand, without a model and without a copy of its own.
void feed(KVCache& cache, int64_t T) {
  const torch::Tensor key = torch::ones({1, kSmallShape.kv_heads, T, kSmallShape.head_size});
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  for (int64_t layer = 0; layer < kSmallShape.layers; ++layer) cache.update(layer, key, key);
  cache.commit();
}

/// One token's keys and values in feed(): 2·L·H·D·4.
constexpr int64_t kTokenBytes = 2 * 2 * 2 * 4 * 4;

// Chapter 1: sampling ---------------------------------------------------------------------------------------------

const double kInfinity = std::numeric_limits<double>::infinity();

torch::Tensor logs_of(const std::vector<double>& numbers) { return torch::tensor(numbers, torch::kFloat64).log(); }

TEST(WordAt, GivesEachOfFourWordsItsShareOfTheUnitInterval) {
  // Logits ln 1, ln 2, ln 3, ln 4 are probabilities 1/10, 2/10, 3/10, 4/10: the ends are 0.1, 0.3, 0.6 and 1.
  const torch::Tensor logits = logs_of({1, 2, 3, 4});
  const std::vector<std::pair<double, int64_t>> expected = {{0, 0},     {0.099, 0}, {0.101, 1}, {0.299, 1},
                                                            {0.301, 2}, {0.599, 2}, {0.601, 3}, {1 - 0x1p-53, 3}};
  for (const auto& [u, word] : expected) EXPECT_EQ(word_at(logits, 1, u), word) << "u = " << u;
}

TEST(WordAt, ATemperatureOfOneHalfSquaresTheProbabilities) {
  // 1, 4, 9 and 16 of 30: the ends are 1/30, 5/30 and 14/30.
  const torch::Tensor logits = logs_of({1, 2, 3, 4}).to(torch::kFloat32);
  EXPECT_EQ(word_at(logits, 0.5, 0.99 / 30), 0);
  EXPECT_EQ(word_at(logits, 0.5, 1.01 / 30), 1);
  EXPECT_EQ(word_at(logits, 0.5, 4.99 / 30), 1);
  EXPECT_EQ(word_at(logits, 0.5, 5.01 / 30), 2);
  EXPECT_EQ(word_at(logits, 0.5, 14.01 / 30), 3);
}

TEST(WordAt, NeverGivesAWordWithoutProbability) {
  const torch::Tensor logits = torch::tensor({-kInfinity, 0.0, -kInfinity, 0.0, -kInfinity}, torch::kFloat64);
  EXPECT_EQ(word_at(logits, 1, 0), 1);
  EXPECT_EQ(word_at(logits, 1, 0.5), 3);
  EXPECT_EQ(word_at(logits, 1, 1 - 0x1p-53), 3);
}

TEST(WordAt, AVerySmallTemperatureIsGreedyAndNothingOverflows) {
  EXPECT_EQ(word_at(torch::tensor({900.0, 901.0, 899.0}), 1e-300, 0.0), 1);
}

TEST(WordAt, RefusesATemperatureOfNothingAndLogitsThatAreNotFinite) {
  EXPECT_THROW(word_at(logs_of({1, 2}), 0, 0.5), c10::ValueError);
  EXPECT_THROW(word_at(logs_of({1, 2}), std::nan(""), 0.5), c10::ValueError);
  EXPECT_THROW(word_at(torch::tensor({0.0, std::nan("")}), 1, 0.5), c10::ValueError);
  EXPECT_THROW(Sampler(-1, 7), c10::ValueError);
}

TEST(Draw, TakesTheUpperBitsOfTheNumberThatTheStandardPromises) {
  // C++20, [rand.predef]: the 10,000th number of a default-constructed mt19937_64 is 9981545732273789042.
  std::mt19937_64 engine;
  engine.discard(9999);
  EXPECT_EQ(draw(engine), std::floor(9981545732273789042.0L / 2048.0L) / 9007199254740992.0L);
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  Sampler sampler(1, /*seed=*/1);
  constexpr int kDraws = 10000;
  std::vector<double> counts(4);
  for (int i = 0; i < kDraws; ++i) counts.at(sampler.choose(logs_of({1, 2, 3, 4}))) += 1;
  double chi_square = 0;
  for (int word = 0; word < 4; ++word) {
    const double expected = kDraws * (word + 1) / 10.0;
    chi_square += (counts[word] - expected) * (counts[word] - expected) / expected;
  }
  EXPECT_LT(chi_square, 16.27);  // three degrees of freedom: one seed in a thousand has more
}

class SampledTales : public testing::Test {
 protected:
  Numbers told_by(const Chapter& chapter, const Sampler& sampler, int64_t new_tokens) const {
    if (!chapter.make_cache) return sample(without_cache(NaiveGpt2(tales_)), prompt_, new_tokens, sampler);
    const auto cache = chapter.make_cache(tales_.config.shape(), default_cache_options(tales_.config.shape()));
    return sample(with_cache(Gpt2(tales_), *cache), prompt_, new_tokens, sampler);
  }

  const Checkpoint tales_ = load_checkpoint(data_folder() / "tales", torch::kFloat64);
  const nlohmann::json golden_ = golden_json("tales.json").at("prompts").at(0);
  const Numbers prompt_ = golden_.at("prompt");
};

TEST_F(SampledTales, TheSameSeedGivesTheSameWordsInEveryChapter) {
  std::set<Numbers> different;
  for (const double temperature : {0.7, 1.5}) {
    for (const uint64_t seed : {1, 2, 3}) {
      const Sampler sampler(temperature, seed);
      const Numbers want = told_by(chapters().front(), sampler, 30);
      different.insert(want);
      for (const Chapter& chapter : exact_chapters()) {
        EXPECT_EQ(told_by(chapter, sampler, 30), want) << chapter.name << ", " << temperature << ", seed " << seed;
      }
    }
  }
  EXPECT_EQ(different.size(), 6U);
}

TEST_F(SampledTales, TemperatureZeroGivesTransformersGreedyTokens) {
  const Numbers all = golden_.at("new_ids");
  const Numbers want(all.begin(), all.begin() + 40);
  for (const Chapter& chapter : exact_chapters()) EXPECT_EQ(told_by(chapter, Sampler(0, 1), 40), want) << chapter.name;
}

// Chapter 1: work -------------------------------------------------------------------------------------------------

TEST(Work, OfFourPlusTwoHundredTokensIsWhatAHandCounts) {
  const Gpt2Config config = gpt2_124m_config();
  const Work naive = work_without_cache(config, 4, 200), cached = work_with_cache(config, 4, 200);
  EXPECT_EQ(naive.tokens_fed, 20'700);  // 4 + 5 + ... + 203
  EXPECT_EQ(cached.tokens_fed, 203);    // 4, then 199 times 1
  // A token costs 12 layers x (4·768² + 2·768·3072) = 84,934,656; a forward's head 768·50,257 = 38,597,376; a query and
  // a key 2·768·12 = 18,432. Queries times keys: 4² + 5² + ... + 203² = 2,809,100, and 4·4 + 5 + 6 + ... + 203 =
  // 20,712.
  EXPECT_EQ(naive.multiply_adds, 20'700 * 84'934'656LL + 200 * 38'597'376LL + 2'809'100 * 18'432LL);
  EXPECT_EQ(cached.multiply_adds, 203 * 84'934'656LL + 200 * 38'597'376LL + 20'712 * 18'432LL);
}

TEST(Work, IsWhatLibTorchIsSeenToDo) {
  const Checkpoint checkpoint = golden_checkpoint("tiny", torch::kFloat32);
  const torch::Tensor prompt = to_row({12, 80, 5, 33, 96});
  const NaiveGpt2 naive(checkpoint);
  {
    const OperationCounter counter;
    generate_naively(naive, prompt, {.new_tokens = 7});
    EXPECT_EQ(counter.multiply_adds, work_without_cache(checkpoint.config, 5, 7).multiply_adds);
  }
  Gpt2 model(checkpoint);
  CatCache cache(model->shape());
  const OperationCounter counter;
  generate(model, cache, prompt, {.new_tokens = 7});
  EXPECT_EQ(counter.multiply_adds, work_with_cache(checkpoint.config, 5, 7).multiply_adds);
  EXPECT_EQ(cache.length(), work_with_cache(checkpoint.config, 5, 7).tokens_fed);
}

// Chapter 2 -------------------------------------------------------------------------------------------------------

TEST(JointCatCache, WritesTheNewTokensTwiceOnceThereIsAPast) {
  JointCatCache cache(kSmallShape);
  for (const int64_t tokens_written : {1, 1 + 2, 1 + 3, 1 + 4}) {  // stacked first, then joined with all before
    const OperationCounter counter;
    feed(cache, 1);
    EXPECT_EQ(counter.bytes_copied, tokens_written * kTokenBytes);
  }
}

TEST(JointCatCache, KeepsKeysAndValuesInOneTensor) {
  JointCatCache cache(kSmallShape);
  forward_numbered(cache, 3);
  const Given given = forward_numbered(cache, 1);
  EXPECT_EQ(numbers_of(given.keys), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers_of(-given.values), (Numbers{0, 1, 2, 3}));
  const auto apart = static_cast<const char*>(given.values_address) - static_cast<const char*>(given.keys_address);
  EXPECT_EQ(apart, 2 * 4 * 4 * 4);  // H·P·D·4: values begin where keys end
}

TEST(BytesWrittenByCat, AreAnArithmeticSeries) {
  EXPECT_EQ(bytes_written_by_cat(1, 1, 10), 10);
  EXPECT_EQ(bytes_written_by_cat(1, 4, 10), 100);                    // 1 + 2 + 3 + 4
  EXPECT_EQ(bytes_written_by_cat(4, 6, 10), 150);                    // 4 + 5 + 6
  EXPECT_EQ(bytes_written_by_cat(1, 1024, 73'728), 38'692'454'400);  // 1,024·1,025/2 = 524,800 tokens
  EXPECT_EQ(bytes_written_by_cat(4, 203, 73'728), 1'526'169'600);    // 20,700 tokens
}

TEST(BytesWrittenByCat, AreWhatChapterTwoIsSeenToWrite) {
  CatCache cache(kSmallShape);
  const OperationCounter counter;
  feed(cache, 3);
  for (int i = 0; i < 4; ++i) feed(cache, 1);
  EXPECT_EQ(counter.bytes_copied, bytes_written_by_cat(3, 7, kTokenBytes));
}

// Chapter 3 -------------------------------------------------------------------------------------------------------

torch::Tensor numbers(const std::vector<double>& list, torch::ScalarType dtype) {
  return torch::tensor(list, dtype).view({1, 1, -1, 1});
}

TEST(FloatMask, IsZeroWhereVisibleAndMinusInfinityWhereNot) {
  const torch::Tensor mask = float_mask(torch::tensor({{true, false}, {true, true}}), torch::kBFloat16);
  EXPECT_EQ(mask.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(mask.to(torch::kFloat64).equal(torch::tensor({{0.0, -kInfinity}, {0.0, 0.0}}, torch::kFloat64)));
}

TEST(FloatMask, GivesTheAttentionOfTheBoolMask) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    const auto heads = [&](int64_t T) { return torch::randn({2, 3, T, 4}, torch::kFloat64).to(dtype); };
    const torch::Tensor query = heads(3), keys = heads(5), values = heads(5);
    const torch::Tensor visible = prefix_mask(2, 3, /*prefix=*/0, torch::kCPU);
    const torch::Tensor got = at::scaled_dot_product_attention(query, keys, values, float_mask(visible, dtype));
    EXPECT_EQ(max_abs_diff(got, attend(query, {keys, values, visible})), 0.0) << dtype;
  }
}

TEST(FloatMask, ABoolMaskConvertedToNumbersHidesNothing) {
  // Scores 0 and ln 3, values 10 and 20, the second key hidden: the answer is 10. Converted, the mask adds 1 to the
  // first score and 0 to the second: weights e and 3 of e + 3.
  const auto dtype = torch::kFloat64;
  const torch::Tensor query = numbers({1}, dtype), keys = numbers({0, std::log(3.0)}, dtype);
  const torch::Tensor values = numbers({10, 20}, dtype), visible = torch::tensor({{true, false}});
  const auto attention = [&](const torch::Tensor& mask) {
    return at::scaled_dot_product_attention(query, keys, values, mask).item<double>();
  };
  EXPECT_NEAR(attention(visible), 10, 1e-12);
  EXPECT_NEAR(attention(float_mask(visible, dtype)), 10, 1e-12);
  const double e = std::exp(1.0);
  EXPECT_NEAR(attention(visible.to(dtype)), (10 * e + 20 * 3) / (e + 3), 1e-12);
}

class Prefix : public testing::Test {
 protected:
  /// The oracle's mask, written as two loops.
  static torch::Tensor explicit_mask(int64_t T, int64_t prefix) {
    torch::Tensor mask = banded_mask(T, T);
    for (int64_t i = 0; i < prefix; ++i) {
      for (int64_t j = 0; j < prefix; ++j) mask[i][j] = true;
    }
    return mask;
  }
  torch::Tensor recomputed(const torch::Tensor& mask) const { return naive_.logits(naive_.hidden(ids_, mask)); }

  const Checkpoint checkpoint_ = golden_checkpoint("nano");
  const NaiveGpt2 naive_{checkpoint_};
  Gpt2 model_{checkpoint_};
  const torch::Tensor ids_ = to_row({3, 1, 4, 1, 5, 9, 2, 6});
  MaskedOffsetsCache inner_{checkpoint_.config.shape()};
};

TEST_F(Prefix, OfFourSeesItselfWholeHoweverTheRestIsFed) {
  const torch::Tensor want = recomputed(explicit_mask(8, 4));
  PrefixCache cache(inner_, 4);
  for (const Numbers& sizes : {Numbers{8}, {4, 4}, {4, 1, 1, 1, 1}, {6, 2}, {5, 1, 2}}) {
    cache.reset();
    EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_, sizes), want), 1e-9) << testing::PrintToString(sizes);
  }
  EXPECT_GT(max_abs_diff(want, recomputed(banded_mask(8, 8))), 1e-3);  // it is not the causal model
}

TEST_F(Prefix, OfNoTokensIsTheCausalMask) {
  PrefixCache cache(inner_, 0);
  EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_, {3, 1, 4}), recomputed(banded_mask(8, 8))), 1e-9);
}

TEST_F(Prefix, FedInTwoChunksIsRefusedBeforeAnythingIsWritten) {
  PrefixCache cache(inner_, 4);
  try {
    in_chunks(model_, cache, ids_, {2, 6});
    ADD_FAILURE() << "half of the prefix was taken";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("all of the prefix at once"), std::string::npos);
  }
  EXPECT_EQ(cache.length(), 0);
}

TEST_F(Prefix, FedInTwoChunksWouldMoveTheLogitsOfEveryPosition) {
  // What two chunks amount to: the first two tokens have been computed before the other two were there to be seen.
  torch::Tensor split = explicit_mask(8, 4);
  split.narrow(0, 0, 2).narrow(1, 2, 2).fill_(false);
  const torch::Tensor moved = (recomputed(split) - recomputed(explicit_mask(8, 4))).abs().amax(-1);
  EXPECT_GT(moved.min().item<double>(), 1e-4);
}

// Chapter 4 -------------------------------------------------------------------------------------------------------

TEST(TokenMajorCache, WritesInPlaceAndKeepsTheHeadsOfATokenSideBySide) {
  TokenMajorCache cache(kSmallShape, 6);
  const Given first = forward_numbered(cache, 2);
  EXPECT_EQ(forward_numbered(cache, 3).keys_address, first.keys_address);
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  const torch::Tensor key = numbered_keys(5, 1);
  const KeyValues kv = cache.update(0, key, key);
  EXPECT_EQ(numbers_of(kv.keys), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(kv.keys.stride(1), 4);  // from head to head: D
  EXPECT_EQ(kv.keys.stride(2), 8);  // from token to token: H·D
}

TEST(TokenMajorCache, RefusesATokenTooManyAndACapacityOfNothing) {
  TokenMajorCache cache(kSmallShape, 4);
  feed(cache, 3);
  EXPECT_THROW(cache.begin({torch::zeros({1, 2}, torch::kInt64)}), c10::IndexError);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_THROW(TokenMajorCache(kSmallShape, 0), c10::ValueError);
}

TEST(DoublingCache, CopiesLessThanTwoTokensForEachThatItTakes) {
  EXPECT_EQ(tokens_copied_by_growing(4, 4), 0);
  EXPECT_EQ(tokens_copied_by_growing(5, 4), 4);
  EXPECT_EQ(tokens_copied_by_growing(9, 4), 4 + 8);
  EXPECT_EQ(tokens_copied_by_growing(1024, 4), 1020);  // 4 + 8 + ... + 512
  EXPECT_EQ(tokens_copied_by_growing(1025, 4), 2044);  // the worst moment: just after a growth
}

TEST(DoublingCache, IsSeenToWriteEachNewTokenAndWhatGrowingCopies) {
  DoublingCache cache(kSmallShape, 2);
  int64_t before = 0;
  for (const int64_t tokens_written : {1, 1, 1 + 2, 1, 1 + 4, 1, 1, 1}) {  // it grows at the third and at the fifth
    const OperationCounter counter;
    feed(cache, 1);
    EXPECT_EQ(counter.bytes_copied, tokens_written * kTokenBytes) << "token " << cache.length();
    before += tokens_written;
  }
  EXPECT_EQ(before, 8 + tokens_copied_by_growing(8, 2));
}

TEST(DoublingCache, AGrowthThatIsAbandonedGivesTheOldBuffersBack) {
  DoublingCache cache(kSmallShape, 2);
  feed(cache, 2);
  const int64_t bytes = cache.bytes();
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  const torch::Tensor key = numbered_keys(2, 1);
  cache.update(0, key, key);
  EXPECT_EQ(cache.bytes(), 2 * bytes);
  cache.abandon();
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST(DoublingCache, RefusesToBeginWithNothing) { EXPECT_THROW(DoublingCache(kSmallShape, 0), c10::ValueError); }

struct Plan {
  const char* name;
  int64_t memory, weights;
  ModelShape shape;
  int64_t tokens, bytes_per_element, sequences;
};

void PrintTo(const Plan& plan, std::ostream* out) { *out << plan.name; }  // for GoogleTest

class Planning : public testing::TestWithParam<Plan> {};

TEST_P(Planning, IsWhatAHandCounts) {
  const Plan& plan = GetParam();
  EXPECT_EQ(sequences_that_fit(plan.memory, plan.weights, plan.shape, plan.tokens, plan.bytes_per_element),
            plan.sequences);
}

constexpr ModelShape k124M = {
    .layers = 12, .heads = 12, .kv_heads = 12, .head_size = 64, .context = 1024, .vocabulary = 1};
constexpr ModelShape k7B = {
    .layers = 32, .heads = 32, .kv_heads = 32, .head_size = 128, .context = 4096, .vocabulary = 1};
constexpr ModelShape k13B = {
    .layers = 40, .heads = 40, .kv_heads = 40, .head_size = 128, .context = 4096, .vocabulary = 1};

INSTANTIATE_TEST_SUITE_P(
    Of, Planning,
    testing::Values(
        // 73,728 bytes a token: 75,497,472 for 1,024; 8 GB less 497,759,232 are 7,502,240,768.
        Plan{"Gpt2InFloat32", 8'000'000'000, 497'759'232, k124M, 1024, 4, 99},
        // 2·32·4,096·2 = 524,288 bytes a token, 2,147,483,648 for 4,096; 24 GB less 13.5 GB are 10.5 GB.
        Plan{"SevenBillionInFloat16", 24'000'000'000, 13'500'000'000, k7B, 4096, 2, 4},
        // 2·40·5,120·2 = 819,200 bytes a token, 3,355,443,200 for 4,096; 80 GB less 26 GB are 54 GB: 16.09.
        // With the 7B's 524,288 bytes a token it would have been 25.
        Plan{"ThirteenBillionInFloat16", 80'000'000'000, 26'000'000'000, k13B, 4096, 2, 16},
        Plan{"WeightsThatFillAll", 26'000'000'000, 26'000'000'000, k13B, 4096, 2, 0},
        Plan{"WeightsThatDoNotFit", 24'000'000'000, 26'000'000'000, k13B, 4096, 2, 0}),
    [](const auto& info) { return info.param.name; });

TEST(Planning, RefusesASequenceOfNothing) {
  EXPECT_THROW(sequences_that_fit(1, 0, k7B, 0, 2), c10::ValueError);
  EXPECT_THROW(sequences_that_fit(-1, 0, k7B, 1, 2), c10::ValueError);
}

// Chapter 5 -------------------------------------------------------------------------------------------------------

class Sinks : public testing::Test {
 protected:
  /// The oracle's mask, written as loops: the band, and the first `sinks` columns up to the diagonal.
  static torch::Tensor explicit_mask(int64_t T, int64_t sinks, int64_t W) {
    torch::Tensor mask = banded_mask(T, W);
    for (int64_t i = 0; i < T; ++i) {
      for (int64_t j = 0; j < std::min(sinks, i + 1); ++j) mask[i][j] = true;
    }
    return mask;
  }
  torch::Tensor recomputed(const torch::Tensor& ids, int64_t sinks, int64_t W) const {
    return naive_.logits(naive_.hidden(ids, explicit_mask(ids.size(1), sinks, W)));
  }

  const Checkpoint checkpoint_ = golden_checkpoint("nano");
  const NaiveGpt2 naive_{checkpoint_};
  Gpt2 model_{checkpoint_};
  const torch::Tensor ids_ = torch::tensor({{3, 1, 4, 1, 5, 9, 2, 6}, {9, 2, 6, 5, 3, 11, 0, 12}}, torch::kInt64);
};

TEST_F(Sinks, GiveTheLogitsOfAFullPassWithTheirMaskHoweverTheTokensAreFed) {
  for (const int64_t sinks : {0, 1, 2, 3}) {
    for (const int64_t W : {1, 2, 3, 8}) {
      const torch::Tensor want = recomputed(ids_, sinks, W);
      SinkCache cache(model_->shape(), sinks, W);
      for (const Numbers& sizes : {Numbers{8}, {1, 1, 1, 1, 1, 1, 1, 1}, {5, 3}, {2, 6}, {4, 1, 3}, {1, 7}}) {
        cache.reset();
        EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_, sizes), want), 1e-9)
            << sinks << " sinks, W = " << W << ", fed as " << testing::PrintToString(sizes);
      }
    }
  }
  EXPECT_GT(max_abs_diff(recomputed(ids_, 1, 3), recomputed(ids_, 0, 3)), 1e-3);  // a sink is heard
}

TEST_F(Sinks, KeepTheFirstTokensAndTheLastAtTheirOwnPositions) {
  SinkCache cache(kSmallShape, 2, 3);
  Numbers given;
  for (int i = 0; i < 7; ++i) given = numbers_of(forward_numbered(cache, 1).keys);
  EXPECT_EQ(given, (Numbers{0, 1, 4, 5, 6}));       // W = 3: itself and two before, and two sinks
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 5, 6}));  // what the next token sees
  EXPECT_EQ(cache.bytes(), 4 * kTokenBytes);        // sinks + W - 1
  EXPECT_EQ(cache.length(), 7);
}

TEST(SinkCache, CopiesWhatItJoinsAndWhatItKeeps) {
  SinkCache cache(kSmallShape, /*sinks=*/0, /*window=*/3);
  for (const int64_t tokens_written : {1 + 1, 2 + 2, 3 + 2, 3 + 2}) {  // joined with the old; what the next query sees
    const OperationCounter counter;
    feed(cache, 1);
    EXPECT_EQ(counter.bytes_copied, tokens_written * kTokenBytes);
  }
}

TEST_F(Sinks, AForwardThatIsAbandonedEvictsNothing) {
  SinkCache cache(model_->shape(), 1, 2);
  const torch::Tensor first = in_chunks(model_, cache, ids_.narrow(1, 0, 5), {5});
  const torch::Tensor key = torch::full({2, 2, 3, 4}, 1e4, torch::kFloat64);
  cache.begin({torch::zeros({2, 3}, torch::kInt64)});
  cache.update(0, key, key);
  cache.abandon();
  const torch::Tensor rest = in_chunks(model_, cache, ids_.narrow(1, 5, 3), {2, 1});
  EXPECT_LE(max_abs_diff(torch::cat({first, rest}, 1), recomputed(ids_, 1, 2)), 1e-9);
}

TEST_F(Sinks, RefuseAWindowOfNothing) {
  EXPECT_THROW(SinkCache(kSmallShape, 1, 0), c10::ValueError);
  EXPECT_THROW(SinkCache(kSmallShape, -1, 3), c10::ValueError);
}

TEST(LateShiftCache, ShiftsOnceInKPlusOneSteps) {
  // W = 3, k = 2: five slots. The fifth token fills them, and then every third. A shift writes W - 1 = 2 tokens twice,
  // into scratch and back.
  LateShiftCache cache(kSmallShape, 3, 2);
  for (const int64_t tokens_written : {1, 1, 1, 1, 1 + 4, 1, 1, 1 + 4}) {
    const OperationCounter counter;
    feed(cache, 1);
    EXPECT_EQ(counter.bytes_copied, tokens_written * kTokenBytes) << "token " << cache.length();
  }
}

TEST(LateShiftCache, WithNoSlotToSpareShiftsAsOftenAsChapterFive) {
  LateShiftCache late(kSmallShape, 3, 0);
  SlidingWindowCache chapter_5(kSmallShape, 3);
  const auto written = [](KVCache& cache) {
    const OperationCounter counter;
    for (int i = 0; i < 8; ++i) feed(cache, 1);
    return counter.bytes_copied;
  };
  EXPECT_EQ(written(late), written(chapter_5));
}

TEST(LateShiftCache, SaysWhichPositionLiesInEachSlot) {
  LateShiftCache cache(kSmallShape, 3, 2);
  for (int i = 0; i < 4; ++i) forward_numbered(cache, 1);
  EXPECT_EQ(cache.slots(), (Numbers{kEmptySlot, kEmptySlot, 2, 3, kEmptySlot}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{2, 3, 4}));
  EXPECT_EQ(cache.slots(), (Numbers{3, 4, kEmptySlot, kEmptySlot, kEmptySlot}));
}

TEST(LateShiftCache, RefusesAWindowOfNothing) {
  EXPECT_THROW(LateShiftCache(kSmallShape, 0, 2), c10::ValueError);
  EXPECT_THROW(LateShiftCache(kSmallShape, 3, -1), c10::ValueError);
}

TEST(News, TravelsAWindowLessOneALayerAndNoFurther) {
  const Checkpoint checkpoint = golden_checkpoint("nano");  // L = 2, context 8
  Gpt2 model(checkpoint);
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5, 9, 2, 6});
  for (const int64_t W : {1, 2, 3}) {
    SlidingWindowCache cache(model->shape(), W);
    for (const int64_t position : {0, 1, 3}) {
      const torch::Tensor moved = news_of_a_change(model, cache, ids, position, /*other=*/7);
      for (int64_t later = 0; later < 8; ++later) {
        const bool reached = position <= later && later <= position + 2 * (W - 1);
        const double change = moved[later].item<double>();
        if (reached) {
          EXPECT_GT(change, 1e-6) << "W = " << W << ", from " << position << " to " << later;
        } else {
          EXPECT_EQ(change, 0) << "W = " << W << ", from " << position << " to " << later;
        }
      }
    }
  }
}

// Chapter 6 -------------------------------------------------------------------------------------------------------

void feed_singles(KVCache& cache, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) forward_numbered(cache, 1);
}

/// Bytes that a forward of T tokens copies, in tokens.
int64_t tokens_copied(KVCache& cache, int64_t T) {
  const OperationCounter counter;
  feed(cache, T);
  EXPECT_EQ(counter.bytes_copied % kTokenBytes, 0);
  return counter.bytes_copied / kTokenBytes;
}

/// The numbers of the keys that query `row` sees, in ascending order.
Numbers seen_by(const KeyValues& kv, int64_t row) {
  const Numbers held = numbers_of(kv.keys);
  Numbers seen;
  for (size_t column = 0; column < held.size(); ++column) {
    const bool visible = !kv.visible.defined() || kv.visible[row][static_cast<int64_t>(column)].item<bool>();
    if (visible) seen.push_back(held[column]);
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

/// Some layers of a forward of T tokens, with keys of 1000 and more, and then it is given up.
void abandon_after(KVCache& cache, int64_t T, int64_t layers) {
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  for (int64_t layer = 0; layer < layers; ++layer) cache.update(layer, numbered_keys(1000, T), numbered_keys(1000, T));
  cache.abandon();
}

TEST(DirectChunkRingCache, CopiesTTokensUpToKPlusOneAndStagesALongerChunk) {
  for (const int64_t k : {0, 1, 2}) {
    const int64_t R = 3 + k;
    for (int64_t T = 1; T <= k + 3; ++T) {
      DirectChunkRingCache cache(kSmallShape, /*window=*/3, k);
      feed_singles(cache, R + 1);
      const int64_t staged = R + T + std::min(T, R);  // behind what is held, then its end is stored
      EXPECT_EQ(tokens_copied(cache, T), T <= k + 1 ? T : staged) << "k = " << k << ", T = " << T;
    }
  }
}

TEST(DirectChunkRingCache, WritesAChunkOverTokensThatNoQuerySees) {
  DirectChunkRingCache cache(kSmallShape, /*window=*/3, /*spare=*/2);
  feed_singles(cache, 6);
  EXPECT_EQ(cache.slots(), (Numbers{5, 1, 2, 3, 4}));
  const Given given = forward_numbered(cache, 3);  // positions 6, 7 and 8 over 1, 2 and 3
  EXPECT_EQ(numbers_of(given.keys), (Numbers{5, 6, 7, 8, 4}));
  EXPECT_EQ(seen_by(given, 0), (Numbers{4, 5, 6}));
  EXPECT_EQ(seen_by(given, 1), (Numbers{5, 6, 7}));
  EXPECT_EQ(seen_by(given, 2), (Numbers{6, 7, 8}));
  EXPECT_EQ(cache.can_give_back(), 3);
}

TEST(DirectChunkRingCache, AnAbandonedChunkCostsItsTTokensOfWhatCanBeTakenBackAndNothingElse) {
  for (int64_t T = 1; T <= 4; ++T) {
    DirectChunkRingCache cache(kSmallShape, /*window=*/3, /*spare=*/2);
    feed_singles(cache, 7);
    EXPECT_EQ(cache.slots(), (Numbers{5, 6, 2, 3, 4}));
    EXPECT_EQ(cache.can_give_back(), 3);  // k + 1
    abandon_after(cache, T, /*layers=*/1);
    Numbers left = {5, 6, 2, 3, 4};
    if (T <= 3) std::fill_n(left.begin() + 2, T, kEmptySlot);  // a chunk of four is staged
    EXPECT_EQ(cache.slots(), left) << "T = " << T;
    EXPECT_EQ(cache.can_give_back(), T <= 3 ? 3 - T : 3) << "T = " << T;
    EXPECT_EQ(seen_by(forward_numbered(cache, 1), 0), (Numbers{5, 6, 7})) << "T = " << T;
  }
}

TEST(DirectChunkRingCache, AnAbandonedChunkTakesTheSlotsFirstThatWereEmptyAlready) {
  DirectChunkRingCache cache(kSmallShape, /*window=*/3, /*spare=*/2);
  feed_singles(cache, 7);
  cache.truncate(6);
  EXPECT_EQ(cache.slots(), (Numbers{5, kEmptySlot, 2, 3, 4}));
  for (const int64_t T : {1, 2, 3}) {
    abandon_after(cache, T, /*layers=*/2);
    EXPECT_EQ(cache.can_give_back(), 3 - T) << "T = " << T;  // k + 1, less the slots that are empty
  }
  EXPECT_EQ(cache.slots(), (Numbers{5, kEmptySlot, kEmptySlot, kEmptySlot, 4}));
  EXPECT_EQ(seen_by(forward_numbered(cache, 1), 0), (Numbers{4, 5, 6}));
}

TEST(DirectChunkRingCache, GivesTheLogitsOfAFullPassForEveryNumberOfSlotsToSpare) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5, 9, 2, 6});
  for (const int64_t W : {1, 2, 3}) {
    const torch::Tensor want = full_recompute(checkpoint, ids, W);
    for (const int64_t k : {0, 1, 2, 3}) {
      DirectChunkRingCache cache(model->shape(), W, k);
      for (const Numbers& sizes : {Numbers{5, 3}, {1, 1, 1, 1, 4}, {3, 2, 3}, {4, 2, 2}, {1, 7}}) {
        cache.reset();
        EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes), want), 1e-9)
            << "W = " << W << ", k = " << k << ", fed as " << testing::PrintToString(sizes);
      }
    }
  }
}

TEST(DirectChunkRingCache, RefusesAWindowOfNothing) {
  EXPECT_THROW(DirectChunkRingCache(kSmallShape, 0, 2), c10::ValueError);
  EXPECT_THROW(DirectChunkRingCache(kSmallShape, 3, -1), c10::ValueError);
}

TEST_F(Sinks, InARingGiveTheLogitsOfAFullPassWithTheirMaskHoweverTheTokensAreFed) {
  for (const int64_t sinks : {0, 1, 2, 3, 9}) {
    for (const int64_t W : {1, 2, 3, 8}) {
      const torch::Tensor want = recomputed(ids_, sinks, W);
      SinkRingCache cache(model_->shape(), sinks, W);
      for (const Numbers& sizes : {Numbers{8}, {1, 1, 1, 1, 1, 1, 1, 1}, {5, 3}, {2, 6}, {4, 1, 3}, {1, 7}}) {
        cache.reset();
        EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_, sizes), want), 1e-9)
            << sinks << " sinks, W = " << W << ", fed as " << testing::PrintToString(sizes);
      }
    }
  }
}

TEST_F(Sinks, InARingTakenBackAreAsIfTheTokensHadNeverCome) {
  const torch::Tensor other = torch::tensor({{11, 13, 2, 7, 5, 5, 1, 3}, {0, 1, 15, 14, 13, 2, 9, 4}}, torch::kInt64);
  for (const int64_t sinks : {1, 2, 5}) {
    for (const int64_t W : {1, 2, 3}) {
      const torch::Tensor want = recomputed(ids_, sinks, W);
      SinkRingCache cache(model_->shape(), sinks, W);
      for (int64_t held = 2; held < 8; ++held) {
        const int64_t most = held <= sinks + W ? held : 1;  // any number until the first is overwritten
        for (int64_t taken = 1; taken < held; ++taken) {
          const int64_t keep = held - taken;
          cache.reset();
          const torch::Tensor first = in_chunks(model_, cache, ids_.narrow(1, 0, keep), Numbers(keep, 1));
          in_chunks(model_, cache, other.narrow(1, 0, taken), Numbers(taken, 1));
          EXPECT_EQ(cache.can_give_back(), most);
          if (taken > most) {
            EXPECT_THROW(cache.truncate(keep), c10::IndexError);
            continue;
          }
          cache.truncate(keep);
          const torch::Tensor rest = in_chunks(model_, cache, ids_.narrow(1, keep, 8 - keep), Numbers(8 - keep, 1));
          EXPECT_LE(max_abs_diff(torch::cat({first, rest}, 1), want), 1e-9)
              << sinks << " sinks, W = " << W << ", " << held << " held, " << taken << " taken back";
        }
      }
    }
  }
}

TEST(SinkRingMask, SeesTheSinksAndTheWindowAndNoEmptySlot) {
  // s = 2, W = 3: sinks 0 and 1, then 5, nothing, 4, and two new ones. Token 6 sees 4 to 6, token 7 sees 5 to 7.
  EXPECT_TRUE(sink_ring_mask({0, 1, 5, kEmptySlot, 4, 6, 7}, 6, 2, 2, 3, torch::kCPU)
                  .equal(torch::tensor({{true, true, true, false, true, true, false},  //
                                        {true, true, true, false, false, true, true}})));
}

TEST(SinkRingCache, TheFirstTokensStayAndTheOthersGoRoundBehindThem) {
  SinkRingCache cache(kSmallShape, /*sinks=*/2, /*window=*/3);
  const void* address = forward_numbered(cache, 1).keys_address;
  for (int64_t position = 1; position < 7; ++position) {
    const Given given = forward_numbered(cache, 1);
    EXPECT_EQ(given.keys_address, address);
    EXPECT_FALSE(given.visible.defined());
  }
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 5, 6, 4}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{0, 1, 5, 6, 7}));
  EXPECT_EQ(cache.bytes(), 5 * kTokenBytes);  // s + W
  cache.reset();
  forward_numbered(cache, 7);  // the same, at once
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 5, 6, 4}));
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{0, 1, 5, 6, 7}));
}

TEST(SinkRingCache, AStepCopiesItsOwnTokenAndAStagedChunkItsSinksAndItsEndTwice) {
  SinkRingCache cache(kSmallShape, /*sinks=*/2, /*window=*/3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(tokens_copied(cache, 1), 1) << i;
  EXPECT_EQ(tokens_copied(cache, 2), 5 + 2 + 2);  // behind the five that are held
  EXPECT_EQ(tokens_copied(cache, 4), 5 + 4 + 3);
  cache.reset();
  EXPECT_EQ(tokens_copied(cache, 8), 8 + 2 + 3);  // both sinks are in it
  cache.reset();
  EXPECT_EQ(tokens_copied(cache, 1), 1);
  EXPECT_EQ(tokens_copied(cache, 4), 4);  // s + W = 5: there is room
  cache.reset();
  EXPECT_EQ(tokens_copied(cache, 1), 1);
  EXPECT_EQ(tokens_copied(cache, 6), 1 + 6 + 1 + 3);  // one of the sinks is in it
}

TEST(SinkRingCache, AnAbandonedForwardLosesNoKeyThatTheNextQuerySees) {
  for (const int64_t T : {1, 3}) {
    SinkRingCache cache(kSmallShape, /*sinks=*/1, /*window=*/3);
    feed_singles(cache, 6);
    abandon_after(cache, T, /*layers=*/2);
    EXPECT_EQ(cache.can_give_back(), T == 1 ? 0 : 1);
    EXPECT_EQ(seen_by(forward_numbered(cache, 1), 0), (Numbers{0, 4, 5, 6}));
  }
}

TEST(SinkRingCache, RefusesAWindowOfNothing) {
  EXPECT_THROW(SinkRingCache(kSmallShape, 1, 0), c10::ValueError);
  EXPECT_THROW(SinkRingCache(kSmallShape, -1, 3), c10::ValueError);
}

/// from, from + 1, ..., to.
Numbers range(int64_t from, int64_t to) {
  Numbers list(to - from + 1);
  std::iota(list.begin(), list.end(), from);
  return list;
}

TEST(OrderedRingCache, KeysComeOldestFirstAndASingleTokenNeedsNoMask) {
  for (const int64_t W : {1, 2, 3, 4, 8}) {
    OrderedRingCache cache(kSmallShape, W);
    for (int64_t P = 0; P < 13; ++P) {
      const Given given = forward_numbered(cache, 1);
      EXPECT_EQ(numbers_of(given.keys), range(std::max<int64_t>(0, P - W + 1), P)) << "W = " << W;
      EXPECT_EQ(numbers_of(-given.values), range(std::max<int64_t>(0, P - W + 1), P)) << "W = " << W;
      EXPECT_FALSE(given.visible.defined());
    }
    const Given chunk = forward_numbered(cache, 3);
    EXPECT_EQ(numbers_of(chunk.keys), range(13 - (W - 1), 15)) << "W = " << W;
    EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), range(16 - (W - 1), 16)) << "W = " << W;
  }
}

TEST(OrderedRingCache, TheRunMovesOnByOneSlotAndIsBackAfterWSteps) {
  OrderedRingCache cache(kSmallShape, 3);
  const char* begin = static_cast<const char*>(forward_numbered(cache, 1).keys_address);
  Numbers slots = {0};
  for (int i = 0; i < 7; ++i) {
    const auto* address = static_cast<const char*>(forward_numbered(cache, 1).keys_address);
    slots.push_back((address - begin) / (4 * 4));  // from slot to slot: D·4
  }
  EXPECT_EQ(slots, (Numbers{0, 0, 0, 1, 2, 0, 1, 2}));  // (P - 2) mod 3 once two old keys are seen
}

TEST(OrderedRingCache, HoldsTwoWSlotsAndNamesATokenOnce) {
  OrderedRingCache cache(kSmallShape, 3);
  feed_singles(cache, 2);
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, kEmptySlot, kEmptySlot, kEmptySlot, kEmptySlot}));
  feed_singles(cache, 3);
  EXPECT_EQ(cache.slots(), (Numbers{kEmptySlot, kEmptySlot, 2, 3, 4, kEmptySlot}));
  EXPECT_EQ(cache.bytes(), 2 * 3 * kTokenBytes);
}

TEST(OrderedRingCache, CopiesEveryTokenTwiceAndAStagedChunkOnceMore) {
  OrderedRingCache cache(kSmallShape, 3);
  EXPECT_EQ(tokens_copied(cache, 2), 2 * 2);  // there is room
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tokens_copied(cache, 1), 2) << i;
  EXPECT_EQ(tokens_copied(cache, 2), 2 + 2 + 2 * 2);  // behind W - 1 old ones, then both into two slots
  EXPECT_EQ(tokens_copied(cache, 5), 2 + 5 + 2 * 3);
}

TEST(OrderedRingCache, AnAbandonedForwardLosesNoKeyThatTheNextQuerySees) {
  for (const int64_t T : {1, 3}) {
    OrderedRingCache cache(kSmallShape, 3);
    feed_singles(cache, 6);
    abandon_after(cache, T, /*layers=*/2);
    EXPECT_EQ(cache.can_give_back(), T == 1 ? 0 : 1);
    EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{4, 5, 6}));
  }
}

TEST(OrderedRingCache, RefusesAWindowOfNothing) { EXPECT_THROW(OrderedRingCache(kSmallShape, 0), c10::ValueError); }

class Drafts : public testing::Test {
 protected:
  // ANCHOR: draft
  /// Five tokens, then a draft of m as one chunk, of which the first `right` are right. The others are taken back and
  /// the right ones fed. The logits of all eight positions, [1, 8, V], without those of the wrong tokens.
  torch::Tensor with_a_draft(KVCache& cache, int64_t m, int64_t right) {
    const int64_t P = 5, keep = P + right;
    const torch::Tensor draft = torch::cat({ids_.narrow(1, P, right), wrong_.narrow(1, keep, m - right)}, 1);
    const torch::Tensor before = in_chunks(model_, cache, ids_.narrow(1, 0, P), Numbers(P, 1));
    const torch::Tensor drafted = in_chunks(model_, cache, draft, {m});
    cache.truncate(keep);
    const torch::Tensor after = in_chunks(model_, cache, ids_.narrow(1, keep, 8 - keep), Numbers(8 - keep, 1));
    return torch::cat({before, drafted.narrow(1, 0, right), after}, 1);
  }
  // ANCHOR_END: draft
  torch::Tensor without_draft(int64_t W) const { return full_recompute(checkpoint_, ids_, W); }

  const Checkpoint checkpoint_ = golden_checkpoint("nano");
  Gpt2 model_{checkpoint_};
  const torch::Tensor ids_ = to_row({3, 1, 4, 1, 5, 9, 2, 6}), wrong_ = to_row({0, 0, 0, 0, 0, 11, 13, 7});
};

// ANCHOR: drafts
TEST_F(Drafts, OfMTokensCanAllGoWithMLessOneSlotsToSpare) {
  for (const int64_t W : {2, 3}) {
    for (const int64_t m : {1, 2, 3}) {  // W + m - 1 <= 5 slots: the draft comes on a full ring
      for (int64_t right = 0; right < m; ++right) {
        RingBufferCache cache(model_->shape(), W, /*spare=*/m - 1);
        EXPECT_LE(max_abs_diff(with_a_draft(cache, m, right), without_draft(W)), 1e-9)
            << "W = " << W << ", m = " << m << ", right: " << right;
        DirectChunkRingCache direct(model_->shape(), W, /*spare=*/m - 1);
        EXPECT_LE(max_abs_diff(with_a_draft(direct, m, right), without_draft(W)), 1e-9)
            << "6.1's, W = " << W << ", m = " << m << ", right: " << right;
      }
    }
  }
}

TEST_F(Drafts, WithOneSlotLessAreRefusedUnlessOneTokenWasRight) {
  for (const int64_t W : {2, 3}) {
    for (const int64_t m : {2, 3}) {
      RingBufferCache cache(model_->shape(), W, /*spare=*/m - 2);
      EXPECT_THROW(with_a_draft(cache, m, /*right=*/0), c10::IndexError) << "W = " << W << ", m = " << m;
      EXPECT_EQ(cache.length(), 5 + m);  // nothing was taken back
      cache.reset();
      EXPECT_LE(max_abs_diff(with_a_draft(cache, m, /*right=*/1), without_draft(W)), 1e-9);
    }
  }
}
// ANCHOR_END: drafts

TEST_F(Drafts, CanFollowOneThatWasTakenBack) {
  RingBufferCache cache(model_->shape(), /*window=*/2, /*spare=*/1);
  in_chunks(model_, cache, ids_.narrow(1, 0, 5), Numbers(5, 1));
  for (int draft = 0; draft < 2; ++draft) {
    in_chunks(model_, cache, wrong_.narrow(1, 5, 2), {2});
    cache.truncate(5);
  }
  const torch::Tensor after = in_chunks(model_, cache, ids_.narrow(1, 5, 3), {1, 1, 1});
  EXPECT_LE(max_abs_diff(after, without_draft(2).narrow(1, 5, 3)), 1e-9);
}

// Chapter 7 -------------------------------------------------------------------------------------------------------

class Batches : public testing::Test {
 protected:
  /// What transformers was asked, the longest prompt first.
  static std::vector<GoldenRun> longest_first() {
    std::vector<GoldenRun> runs = golden_runs("tiny", "full");
    std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.prompt.size() > b.prompt.size(); });
    EXPECT_GE(runs.size(), 4U);
    EXPECT_GT(runs.front().prompt.size(), runs.back().prompt.size());
    return runs;
  }
  std::vector<Request> golden_requests() const {
    std::vector<Request> requests;
    for (const GoldenRun& run : golden_) requests.push_back({run.prompt, run.new_tokens()});
    return requests;
  }
  /// `rows` - 1 requests that decode, of one token of prompt and six new ones; one that makes room at once; and then a
  /// newcomer of five tokens, who wants one.
  static std::vector<Request> decoders_and_a_newcomer(int64_t rows) {
    std::vector<Request> requests(rows - 1, {{5}, 6});
    requests.push_back({{6}, 1});
    requests.push_back({{7, 8, 9, 10, 11}, 1});
    return requests;
  }
  MixedGeneration mixed(const std::vector<Request>& requests, int64_t rows, int64_t chunk) {
    RaggedBatchCache cache(model_->shape(), model_->shape().context, rows);
    MixedGeneration done = generate_mixed(model_, cache, requests, rows, chunk);
    for (int64_t row = 0; row < rows; ++row) EXPECT_EQ(cache.length(row), 0) << "row " << row << " has not left";
    return done;
  }

  const std::vector<GoldenRun> golden_ = longest_first();
  Gpt2 model_{golden_checkpoint("tiny")};
};

TEST_F(Batches, MixedGiveEveryRequestTheTokensThatTransformersGivesItAlone) {
  for (const int64_t rows : {1, 2, 3, 4, 5}) {
    for (const int64_t chunk : {1, 3, 5, 64}) {
      const MixedGeneration done = mixed(golden_requests(), rows, chunk);
      for (size_t i = 0; i < golden_.size(); ++i) {
        EXPECT_EQ(done.new_ids[i], golden_[i].new_ids()) << "request " << i << ", " << rows << " rows, chunk " << chunk;
      }
      EXPECT_LE(*std::max_element(done.columns.begin(), done.columns.end()), chunk);
    }
  }
}

TEST_F(Batches, MixedPadARowThatDecodesToTheNewcomersChunk) {
  // The decoding rows need six forwards. The newcomer is there from the second on.
  const std::vector<std::pair<int64_t, Numbers>> columns = {
      {1, {1, 1, 1, 1, 1, 1}}, {2, {1, 2, 2, 1, 1, 1}}, {3, {1, 3, 2, 1, 1, 1}}, {5, {1, 5, 1, 1, 1, 1}}};
  for (const int64_t rows : {2, 3}) {
    for (const auto& [chunk, expected] : columns) {
      const MixedGeneration done = mixed(decoders_and_a_newcomer(rows), rows, chunk);
      EXPECT_EQ(done.columns, expected) << rows << " rows, chunk " << chunk;
      const int64_t forwards = (5 + chunk - 1) / chunk;  // that hold a chunk
      EXPECT_EQ(done.padding_tokens, (rows - 1) * (5 - forwards)) << rows << " rows, chunk " << chunk;
    }
  }
}

TEST_F(Batches, WithPromptsAloneARowThatDecodesWaitsForTheWholePromptWhateverTheChunk) {
  for (const int64_t chunk : {1, 2, 3, 5}) {
    RaggedBatchCache cache(model_->shape(), 64, /*rows=*/2);
    CountingCache counting(cache);
    const BatchOptions options{
        .rows = 2, .chunk = chunk, .clock = [&] { return static_cast<double>(counting.begins); }};
    const BatchGeneration done = generate_batch(model_, counting, decoders_and_a_newcomer(2), options);
    const std::vector<double>& times = done.answers[0].timings.token_times;
    EXPECT_EQ(times[1] - times[0], (5 + chunk - 1) / chunk + 1) << "chunk " << chunk;  // all chunks, then its step
    EXPECT_EQ(done.padding_tokens, 0);
  }
}

TEST_F(Batches, MixedRefuseWhatCannotBeAnswered) {
  RaggedBatchCache cache(model_->shape(), 64, 2);
  const auto refused = [&](const Request& request, int64_t rows, int64_t chunk) {
    EXPECT_THROW(generate_mixed(model_, cache, {request}, rows, chunk), c10::Error);
    EXPECT_EQ(cache.bytes(), 0);
  };
  refused({{5}, 1}, 0, 1);
  refused({{5}, 1}, 2, 0);
  refused({{}, 1}, 2, 1);
  refused({{97}, 1}, 2, 1);
  refused({{5}, 0}, 2, 1);
  refused({{5}, 65}, 2, 1);
  refused({Numbers(65, 5), 1}, 2, 1);
  EXPECT_EQ(generate_mixed(model_, cache, {{{5}, 64}}, 2, 1).new_ids[0].size(), 64U);  // the last one is never fed
}

// ANCHOR: first_tokens
using GenerateFunction = BatchGeneration (*)(Gpt2&, KVCache&, const std::vector<Request>&, const BatchOptions&);

/// The forward in which each request's first token came, on one row that is fed a token a forward.
std::vector<double> first_tokens(Gpt2& model, GenerateFunction generate_all, const std::vector<Request>& requests) {
  RaggedBatchCache cache(model->shape(), model->shape().context, /*rows=*/1);
  CountingCache counting(cache);
  const BatchOptions options{.rows = 1, .chunk = 1, .clock = [&] { return static_cast<double>(counting.begins); }};
  std::vector<double> forwards;
  for (const Generation& answer : generate_all(model, counting, requests, options).answers) {
    forwards.push_back(answer.timings.token_times.front());
  }
  return forwards;
}

TEST_F(Batches, ShortestFirstLowerTheMeanTimeToFirstTokenAndRaiseTheLongest) {
  // A row is busy for prompt + new tokens - 1 forwards: 6, 2 and 2.
  const std::vector<Request> requests = {{{5, 6, 7, 8, 9, 10}, 1}, {{5}, 2}, {{6}, 2}};
  EXPECT_EQ(first_tokens(model_, generate_batch, requests), (std::vector<double>{6, 6 + 1, 6 + 2 + 1}));
  EXPECT_EQ(first_tokens(model_, generate_shortest_first, requests), (std::vector<double>{2 + 2 + 6, 1, 2 + 1}));
}
// ANCHOR_END: first_tokens

TEST_F(Batches, ShortestFirstRaiseTheMeanTooWhereShortPromptsHaveLongAnswers) {
  // Busy for 4, 5 and 5 forwards: the shortest prompts are the longest work.
  const std::vector<Request> requests = {{{5, 6, 7, 8}, 1}, {{5}, 5}, {{6}, 5}};
  EXPECT_EQ(first_tokens(model_, generate_batch, requests), (std::vector<double>{4, 4 + 1, 4 + 5 + 1}));
  EXPECT_EQ(first_tokens(model_, generate_shortest_first, requests), (std::vector<double>{5 + 5 + 4, 1, 5 + 1}));
}

TEST_F(Batches, ShortestFirstALongPromptWaitsForAllShortOnesThatCome) {
  for (const int64_t more : {1, 4, 9}) {
    std::vector<Request> requests(1 + more, {{5}, 2});
    requests[0] = {{5, 6, 7, 8, 9, 10}, 1};
    EXPECT_EQ(first_tokens(model_, generate_batch, requests)[0], 6) << more;
    EXPECT_EQ(first_tokens(model_, generate_shortest_first, requests)[0], 2 * more + 6) << more;
  }
}

TEST_F(Batches, ShortestFirstAreAnsweredInTheOrderOfTheRequests) {
  for (const int64_t rows : {1, 2, 4}) {
    RaggedBatchCache cache(model_->shape(), 64, rows);
    std::vector<Numbers> heard(golden_.size());
    BatchOptions options{.rows = rows};
    options.on_token = [&](size_t request, int64_t id) { heard[request].push_back(id); };
    const BatchGeneration done = generate_shortest_first(model_, cache, golden_requests(), options);
    for (size_t i = 0; i < golden_.size(); ++i) {
      EXPECT_EQ(to_ids(done.answers[i].new_ids), golden_[i].new_ids()) << "request " << i << ", " << rows << " rows";
      EXPECT_EQ(heard[i], golden_[i].new_ids()) << "request " << i << ", " << rows << " rows";
    }
  }
}

class MovingRows : public Batches {
 protected:
  // ANCHOR: moving
  /// Greedy decoding of all requests, a row each: rows 0 to n - 1 are at work, and the last of them moves into the
  /// place of one that leaves. The new ids of each request.
  std::vector<Numbers> told_together(MovableRows& cache, const std::vector<Request>& requests) {
    std::vector<Numbers> told(requests.size());
    Numbers working(requests.size());  // the request of each row
    std::iota(working.begin(), working.end(), 0);
    const auto choose = [&](int64_t row, const torch::Tensor& hidden) {
      told[working[row]].push_back(greedy_choice(model_->logits(hidden)).item<int64_t>());
    };
    for (int64_t row = 0; row < static_cast<int64_t>(working.size()); ++row) {
      const Step prompt{.ids = to_row(requests[row].prompt), .rows = to_row({row})[0]};
      choose(row, model_->hidden(prompt, cache)[0][-1]);
    }
    while (true) {
      for (int64_t row = static_cast<int64_t>(working.size()) - 1; row >= 0; --row) {
        const int64_t last = static_cast<int64_t>(working.size()) - 1, request = working[row];
        if (static_cast<int64_t>(told[request].size()) < requests[request].new_tokens) continue;
        if (row < last)
          cache.move_row(last, row);
        else
          cache.truncate(row, 0);
        working[row] = working.back();
        working.pop_back();
      }
      if (working.empty()) return told;
      Numbers fed;
      for (const int64_t request : working) fed.push_back(told[request].back());
      const auto n = static_cast<int64_t>(fed.size());
      const torch::Tensor hidden = model_->hidden({.ids = to_row(fed).view({n, 1}), .rows = torch::arange(n)}, cache);
      for (int64_t row = 0; row < n; ++row) choose(row, hidden[row][0]);
    }
  }
  // ANCHOR_END: moving
};

TEST_F(MovingRows, TellEachRequestTheTokensThatTransformersGivesItAlone) {
  std::vector<Request> requests = golden_requests();
  for (size_t first = 0; first < requests.size(); ++first) {  // another one leaves from another row
    RaggedBatchCache cache(model_->shape(), 64, static_cast<int64_t>(requests.size()));
    MovableRows movable(cache);
    const std::vector<Numbers> told = told_together(movable, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(told[i], golden_[(first + i) % golden_.size()].new_ids()) << "request " << i << " from " << first;
      EXPECT_EQ(cache.length(static_cast<int64_t>(i)), 0);
    }
    std::rotate(requests.begin(), requests.begin() + 1, requests.end());
  }
}

// ANCHOR: copies
/// One forward by hand of counts[b] tokens in rows[b]: the bytes that it copies, in tokens.
int64_t tokens_copied_in(KVCache& cache, const Numbers& rows, const Numbers& counts) {
  const auto B = static_cast<int64_t>(rows.size()), T = *std::max_element(counts.begin(), counts.end());
  const torch::Tensor key = torch::ones({B, kSmallShape.kv_heads, T, kSmallShape.head_size});
  const Step step{.ids = torch::zeros({B, T}, torch::kInt64), .counts = to_row(counts)[0], .rows = to_row(rows)[0]};
  const OperationCounter counter;
  cache.begin(step);
  for (int64_t layer = 0; layer < kSmallShape.layers; ++layer) cache.update(layer, key, key);
  cache.commit();
  EXPECT_EQ(counter.bytes_copied % kTokenBytes, 0);
  return counter.bytes_copied / kTokenBytes;
}

TEST(MovableRows, MoveARowWhenOneLeavesAndThenCopyTheNewTokensOnly) {
  RaggedBatchCache gathering(kSmallShape, 8, /*rows=*/3), inner(kSmallShape, 8, /*rows=*/3);
  MovableRows movable(inner);
  EXPECT_EQ(tokens_copied_in(gathering, {0, 1, 2}, {3, 2, 4}), 3 + 2 + 4);
  EXPECT_EQ(tokens_copied_in(movable, {0, 1, 2}, {3, 2, 4}), 3 + 2 + 4);
  gathering.truncate(1, 0);  // row 1 leaves, and rows 0 and 2 are no neighbours
  {
    const OperationCounter counter;
    movable.move_row(2, 1);
    EXPECT_EQ(counter.bytes_copied, (2 * 4 + 1) * kTokenBytes);  // out and in, and the token of the look
  }
  for (const int64_t longest : {5, 6, 7}) {
    EXPECT_EQ(tokens_copied_in(gathering, {0, 2}, {1, 1}), 2 + 2 * longest);  // two rows at the length of the longest
    EXPECT_EQ(tokens_copied_in(movable, {0, 1}, {1, 1}), 2);
  }
}
// ANCHOR_END: copies

TEST(MovableRows, LeaveTheirPlaceEmptyAndKeepTheirLength) {
  RaggedBatchCache cache(kSmallShape, 8, /*rows=*/3);
  MovableRows movable(cache);
  tokens_copied_in(movable, {0, 1, 2}, {3, 2, 4});
  const auto lengths = [&] { return Numbers{movable.length(0), movable.length(1), movable.length(2)}; };
  movable.move_row(1, 1);
  EXPECT_EQ(lengths(), (Numbers{3, 2, 4}));
  movable.move_row(2, 0);
  EXPECT_EQ(lengths(), (Numbers{4, 2, 0}));
  movable.move_row(2, 1);  // an empty one: row 1 is freed
  EXPECT_EQ(lengths(), (Numbers{4, 0, 0}));
  EXPECT_THROW(movable.move_row(0, 3), c10::IndexError);
  EXPECT_THROW(movable.move_row(3, 0), c10::IndexError);
  EXPECT_EQ(lengths(), (Numbers{4, 0, 0}));
}

TEST(MovableRows, AFullRowStaysWhereItIs) {
  RaggedBatchCache cache(kSmallShape, /*capacity=*/4, /*rows=*/2);
  MovableRows movable(cache);
  tokens_copied_in(movable, {0, 1}, {3, 4});
  EXPECT_THROW(movable.move_row(1, 0), c10::IndexError);
  EXPECT_EQ(movable.length(0), 3);
  EXPECT_EQ(movable.length(1), 4);
}

}  // namespace
}  // namespace kvbook

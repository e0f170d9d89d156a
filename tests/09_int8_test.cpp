// Chapter 9's own promises: codes, scales, groups, and how far logits move. The conformance suite holds these caches to
// themselves, fed at once; here they are held to the model without rounding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "chapters/09_int8/calibration.h"
#include "chapters/09_int8/grouped_int8_cache.h"
#include "chapters/09_int8/int8_cache.h"
#include "chapters/09_int8/outlier.h"
#include "chapters/09_int8/quantize.h"
#include "common/attention.h"
#include "common/axes.h"
#include "common/drawn_requests.h"
#include "common/ids.h"
#include "tests/support/golden.h"
#include "tests/support/operation_counter.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

torch::Tensor float64(const std::vector<double>& numbers) { return torch::tensor(numbers, torch::kFloat64); }

Numbers codes_of(const torch::Tensor& codes) {
  const torch::Tensor wide = codes.to(torch::kInt64).contiguous();
  return {wide.data_ptr<int64_t>(), wide.data_ptr<int64_t>() + wide.numel()};
}

// ---- numbers and codes

TEST(Quantize, Case37ANumberGetsTheNearestCodeAndNoneIsPast127) {
  const double s = 0.5;
  const torch::Tensor scale = float64({s});
  EXPECT_EQ(
      codes_of(quantize(float64({0.9 * s, -0.9 * s, 127 * s, 127.6 * s, -127.6 * s, 300 * s, 0.4 * s, 0}), scale)),
      (Numbers{1, -1, 127, 127, -127, 127, 0, 0}));
}

TEST(Quantize, Case37ANumberInRangeComesBackWithinHalfAStep) {
  std::mt19937_64 draw(37);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> drawn(10'000);
  for (double& number : drawn) number = uniform(draw);
  const torch::Tensor numbers = float64(drawn).view({100, 100}), scales = scales_of(numbers, 1);
  const torch::Tensor back = dequantize(quantize(numbers, scales), scales, torch::kFloat64);
  EXPECT_TRUE(((back - numbers).abs() <= scales / 2 * (1 + 1e-6)).all().item<bool>());  // a scale has 24 bits
  EXPECT_EQ(scales.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(quantize(numbers, scales).abs().amax(1).eq(127).all().item<bool>()) << "the greatest is code 127";
}

TEST(Quantize, Case37ZerosStayZerosAndAreNoNaN) {
  const torch::Tensor zeros = torch::zeros({3, 4}, torch::kFloat64), scales = scales_of(zeros, 1);
  const torch::Tensor codes = quantize(zeros, scales);
  EXPECT_TRUE(codes.eq(0).all().item<bool>());
  EXPECT_TRUE(dequantize(codes, scales, torch::kFloat64).eq(0).all().item<bool>());
  EXPECT_EQ(codes_of(quantize(float64({5}), torch::zeros({1}))), Numbers{0}) << "a channel that was always 0";
}

TEST(Outlier, Case38AScaleATokenLosesTheOthersAScaleAChannelKeepsThem) {
  const OutlierErrors errors = outlier_errors();
  EXPECT_NEAR(errors.greatest_weight_a_token, 1.0 / 16, 1e-12) << "all sixteen keys are alike now";
  EXPECT_GT(errors.weights_a_token, 0.3);
  EXPECT_LT(errors.weights_a_channel, 0.01);
  EXPECT_GT(errors.weights_a_token, 50 * errors.weights_a_channel);
  EXPECT_GT(errors.output_a_token, 10 * errors.output_a_channel);
  EXPECT_LT(errors.keys_a_token, 0.02) << "judged by reconstruction alone, a scale a token looks good";
}

// ---- what is held

/// A forward of T given keys, [1, 2, T, 4]; what layer 0 is given.
KeyValues feed_keys(KVCache& cache, const torch::Tensor& keys) {
  cache.begin({torch::zeros({1, keys.size(kSeqAxis)}, torch::kInt64)});
  const KeyValues first = cache.update(0, keys, -keys);
  cache.update(1, keys, -keys);
  cache.commit();
  return first;
}

torch::Tensor random_keys(int64_t T, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({1, 2, T, 4}, torch::kFloat64);
}

TEST(Int8Cache, Case39HoldsInt8ByTheFormulaScalesIncluded) {
  Int8Cache by_token(kSmallShape);
  EXPECT_EQ(by_token.bytes(), 0);
  feed_keys(by_token, random_keys(3, 1));
  EXPECT_EQ(by_token.bytes(), 2 * 2 * 2 * 8 * (4 + 4));  // 2·L·H·C·(D + 4)

  const KeyValueRanges ranges = {torch::ones({2, 2, 4}), torch::ones({2, 2, 4})};
  Int8Cache by_channel(kSmallShape, ranges);
  feed_keys(by_channel, random_keys(3, 1));
  EXPECT_EQ(by_channel.bytes(), 2 * 2 * 2 * (8 * 4 + 4 * 4));  // 2·L·H·(C·D + 4·D)

  GroupedInt8Cache by_group(kSmallShape, 3);
  feed_keys(by_group, random_keys(5, 1));
  EXPECT_EQ(by_group.bytes(),
            2 * 2 * 2 * (6 * 4 + 2 * 4 * 4 + 2 * 4 * 8));  // 6 codes, 2 groups' scales, 2 as they came
}

TEST(Int8Cache, WhatComesBackIsWithinHalfAStepOfItsToken) {
  Int8Cache cache(kSmallShape);
  const torch::Tensor keys = random_keys(8, 2);
  const KeyValues kv = feed_keys(cache, keys);
  const torch::Tensor half = keys.abs().amax(kSizeAxis, true) / 254;
  EXPECT_TRUE(((kv.keys - keys).abs() <= half * (1 + 1e-6)).all().item<bool>());
  EXPECT_FALSE(kv.keys.equal(keys)) << "nothing was rounded";
  EXPECT_TRUE(kv.values.equal(-kv.keys));
}

TEST(Int8Cache, AFixedRangeCutsOffWhatIsGreater) {
  KeyValueRanges ranges = {torch::ones({2, 2, 4}), torch::ones({2, 2, 4})};
  ranges.keys[0][0][0] = 2;
  Int8Cache cache(kSmallShape, ranges);
  const KeyValues kv = feed_keys(cache, torch::full({1, 2, 1, 4}, 1.5, torch::kFloat64));
  EXPECT_NEAR(kv.keys[0][0][0][0].item<double>(), 1.5, 1.0 / 127);
  EXPECT_NEAR(kv.keys[0][0][0][1].item<double>(), 1, 1e-6);
  EXPECT_NEAR(kv.values[0][1][0][3].item<double>(), -1, 1e-6);
}

TEST(Int8Cache, RangesOfAnotherShapeAreRefused) {
  EXPECT_THROW(Int8Cache(kSmallShape, {torch::ones({2, 2, 5}), torch::ones({2, 2, 4})}), c10::ValueError);
  EXPECT_THROW(Int8Cache(kSmallShape, {torch::ones({2, 2, 4}), torch::ones({1, 2, 4})}), c10::ValueError);
  EXPECT_THROW(GroupedInt8Cache(kSmallShape, 0), c10::ValueError);
}

TEST(Calibration, TheRangeOfAChannelIsItsGreatestNumberOverAllTexts) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const KeyValueRanges ranges = measure_ranges(model, {{4, 9, 4}, {3}});
  // Of the first text, transformers' keys; of the second, one token that no other sees.
  const nlohmann::json reference = golden_json("nano/past_key_values.json");
  torch::Tensor want = torch::zeros({2, 2, 4}, torch::kFloat64);
  for (int64_t layer = 0; layer < 2; ++layer) {
    const torch::Tensor keys = tensor_of(reference["layers"][layer]["keys"]);  // [H, T, D], longer than three tokens
    want[layer] = keys.narrow(1, 0, 3).abs().amax(1);
  }
  const torch::Tensor alone = measure_ranges(model, {{3}}).keys;
  EXPECT_LE(max_abs_diff(ranges.keys, torch::maximum(want, alone)), 1e-6);
  EXPECT_THROW(measure_ranges(model, {}), c10::ValueError);
}

/// Bytes copied by one forward of T tokens on P held ones, in float32.
int64_t bytes_copied(KVCache& cache, int64_t P, int64_t T) {
  feed_keys(cache, random_keys(P, 7).to(torch::kFloat32));
  const torch::Tensor keys = random_keys(T, 8).to(torch::kFloat32);
  const OperationCounter counter;
  feed_keys(cache, keys);
  return counter.bytes_copied;
}

TEST(Int8Cache, CopiesWhatItsContractsSay) {
  constexpr int64_t kSides = 2 * 2 * 2, kD = 4;              // keys and values, layers, heads
  const auto expect = [&](int64_t copied, int64_t wanted) {  // each side, and up to a token's worth of scratch
    EXPECT_GE(copied, kSides * wanted);
    EXPECT_LE(copied, kSides * (wanted + 2 * kD * 4));
  };
  Int8Cache by_token(kSmallShape);  // five tokens come back; the new one's codes are made and stored, and its scale
  expect(bytes_copied(by_token, 4, 1), 5 * kD * 4 + 2 * kD + 4);
  const KeyValueRanges ranges = {torch::ones({2, 2, 4}), torch::ones({2, 2, 4})};
  Int8Cache by_channel(kSmallShape, ranges);  // no scale is stored
  expect(bytes_copied(by_channel, 4, 1), 5 * kD * 4 + 2 * kD);
  GroupedInt8Cache by_group(kSmallShape, 3);
  // Three come back, with their scales repeated; two are open, joined, kept for later; and all five are joined.
  expect(bytes_copied(by_group, 4, 1), (3 + 3 + 2 + 2 + 5) * kD * 4);
}

// ---- groups

TEST(GroupedMask, AQuerySeesItsOwnGroupAsItCameAndThoseBeforeInCodes) {
  // P = 1, T = 4, N = 2: positions 1 to 4; codes of 0 to 3, then 0 to 4 as they came.
  const torch::Tensor mask = grouped_mask(1, 4, 2, torch::kCPU).to(torch::kInt64);
  EXPECT_TRUE(mask.equal(torch::tensor({{0, 0, 0, 0, 1, 1, 0, 0, 0},
                                        {1, 1, 0, 0, 0, 0, 1, 0, 0},
                                        {1, 1, 0, 0, 0, 0, 1, 1, 0},
                                        {1, 1, 1, 1, 0, 0, 0, 0, 1}})));
}

TEST(GroupedInt8Cache, GroupsBeginAtMultiplesOfTheirSizeWhereverForwardsEnd) {
  const torch::Tensor keys = random_keys(8, 3);
  std::vector<torch::Tensor> seen;
  for (const Numbers& sizes : {Numbers{1, 1, 1, 1, 1, 1, 1, 1}, {7, 1}, {2, 5, 1}, {4, 3, 1}}) {
    GroupedInt8Cache cache(kSmallShape, 3);
    int64_t fed = 0;
    KeyValues last;
    for (const int64_t T : sizes) {
      last = feed_keys(cache, keys.narrow(kSeqAxis, fed, T));
      fed += T;
    }
    EXPECT_FALSE(last.visible.defined());
    ASSERT_EQ(last.keys.size(kSeqAxis), 8);  // positions 0 to 5 in codes, 6 and 7 as they came
    seen.push_back(last.keys);
    EXPECT_TRUE(seen.back().equal(seen.front())) << "codes depend on how the tokens came";
  }
  EXPECT_TRUE(seen.front().narrow(kSeqAxis, 6, 2).equal(keys.narrow(kSeqAxis, 6, 2)));
  const torch::Tensor group = keys.narrow(kSeqAxis, 3, 3), half = group.abs().amax(kSeqAxis, true) / 254;
  EXPECT_TRUE(((seen.front().narrow(kSeqAxis, 3, 3) - group).abs() <= half * (1 + 1e-6)).all().item<bool>());
}

TEST(GroupedInt8Cache, TheOpenGroupCanBeGivenBackAndNoMore) {
  GroupedInt8Cache cache(kSmallShape, 3);
  feed_keys(cache, random_keys(5, 4));
  EXPECT_EQ(cache.can_give_back(), 2);
  EXPECT_THROW(cache.truncate(2), c10::IndexError);
  cache.truncate(4);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * (6 * 4 + 2 * 4 * 4 + 1 * 4 * 8));
  cache.truncate(3);
  EXPECT_EQ(cache.can_give_back(), 0);
}

TEST(GroupedInt8Cache, SlotsAndColumnsNameThePositions) {
  GroupedInt8Cache cache(kSmallShape, 3);
  feed_keys(cache, random_keys(4, 5));
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 2, kEmptySlot, kEmptySlot, kEmptySlot, 3}));
  cache.begin({torch::zeros({1, 3}, torch::kInt64)});
  EXPECT_EQ(cache.columns(), (Numbers{0, 1, 2, 3, 4, 5, 3, 4, 5, 6}));
}

TEST(GroupedInt8Cache, AGroupThatNeverFillsIsNotRounded) {
  GroupedInt8Cache cache(kSmallShape, 100);
  const torch::Tensor keys = random_keys(8, 6);
  EXPECT_TRUE(feed_keys(cache, keys).keys.equal(keys));
}

// ---- how far logits move

struct Kind {
  std::string name;
  std::function<std::unique_ptr<KVCache>(Gpt2&)> make;
};

std::vector<Kind> kinds(const std::vector<Numbers>& texts) {
  return {{"token", [](Gpt2& model) { return std::make_unique<Int8Cache>(model->shape()); }},
          {"channel",
           [texts](Gpt2& model) { return std::make_unique<Int8Cache>(model->shape(), measure_ranges(model, texts)); }},
          {"group of 4", [](Gpt2& model) { return std::make_unique<GroupedInt8Cache>(model->shape(), 4); }}};
}

TEST(Int8Logits, Case39AreNearThoseOfTransformersAndNotEqual) {
  for (const auto& [name, tolerance] : {std::pair{"nano", 0.2}, {"tiny", 1.0}}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    Gpt2 model(checkpoint);
    std::vector<Numbers> texts;  // other texts than those that are judged
    std::mt19937_64 draw(39);
    for (int i = 0; i < 100; ++i) texts.push_back(drawn_ids(draw, 8, checkpoint.config.vocabulary));
    for (const Kind& kind : kinds(texts)) {
      double worst = 0;
      int64_t same = 0, tokens = 0;
      for (const GoldenRun& run : golden_runs(name, "full")) {
        const auto cache = kind.make(model);
        const torch::Tensor fed = to_row({run.ids.begin(), run.ids.end() - 1});
        const torch::Tensor got = in_chunks(model, *cache, fed, Numbers(fed.size(1), 1));
        const torch::Tensor want = full_recompute(checkpoint, fed, checkpoint.config.context);
        const torch::Tensor end = torch::tensor(run.end_logits, torch::kFloat64);  // what transformers says
        EXPECT_LE(max_abs_diff(want[0][-1], end), 2e-9);
        worst = std::max(worst, max_abs_diff(got, want));
        same += got.argmax(-1).eq(want.argmax(-1)).sum().item<int64_t>();
        tokens += fed.size(1);
      }
      fmt::print("{}, {}: logits move by at most {:.4f}, {} of {} first choices are the same\n", name, kind.name, worst,
                 same, tokens);
      EXPECT_LE(worst, tolerance) << name << ", " << kind.name;
      EXPECT_GT(worst, 1e-6) << name << ", " << kind.name << ": nothing was rounded";
      EXPECT_GE(same * 100, tokens * 90) << name << ", " << kind.name;
    }
  }
}

}  // namespace
}  // namespace kvbook

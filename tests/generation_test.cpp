// Choosing, timing and stopping: what all loops share, and the loops themselves.
#include "common/generation.h"

#include <gtest/gtest.h>

#include "chapters/01_naive/naive_gpt2.h"
#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "common/generate.h"
#include "tests/support/golden.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Ids = std::vector<int64_t>;

TEST(GreedyChoice, Case12TheLowestIdOfEqualsWins) {
  const torch::Tensor logits = torch::tensor({{1.0, 3.0, 3.0}, {0.0, 0.0, 0.0}, {2.0, 1.0, 2.0}});
  EXPECT_TRUE(greedy_choice(logits).equal(torch::tensor({1, 0, 0}, torch::kInt64)));
}

TEST(GreedyChoice, Case12TheLowestIdOfEqualsWinsInALargeVocabularyToo) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const auto& [low, high] : {std::pair<int64_t, int64_t>{3, 50000}, {17, 18}, {4095, 4096}, {25128, 25129}}) {
      torch::Tensor logits = torch::zeros({1, 50257}, dtype);
      logits[0][low] = 1;
      logits[0][high] = 1;
      EXPECT_EQ(greedy_choice(logits).item<int64_t>(), low);
    }
    EXPECT_EQ(greedy_choice(torch::zeros({1, 50257}, dtype)).item<int64_t>(), 0);
  }
}

/// Logits [1, 4] whose best is `id`, by `gap`.
torch::Tensor logits_for(int64_t id, double gap = 1.0) {
  torch::Tensor logits = torch::zeros({1, 4}, torch::kFloat64);
  logits[0][id] = gap;
  return logits;
}

Generation decode(const GenerateOptions& options, const Ids& ids, int64_t room = 100) {
  GreedyDecoder decoder(options, /*prompt_tokens=*/3, room);
  for (const int64_t id : ids) {
    EXPECT_FALSE(decoder.finished());
    decoder.choose(logits_for(id));
  }
  EXPECT_TRUE(decoder.finished());
  return decoder.result();
}

TEST(GreedyDecoder, EndsAtTheNumberAskedForAtTheStopIdOrWithTheContext) {
  EXPECT_EQ(decode({.new_tokens = 2}, {1, 2}).finish_reason, FinishReason::kLength);
  EXPECT_EQ(decode({.new_tokens = 2}, {1}, /*room=*/1).finish_reason, FinishReason::kContextFull);
  EXPECT_EQ(decode({.new_tokens = 2}, {1, 2}, /*room=*/2).finish_reason, FinishReason::kLength);
  const Generation stopped = decode({.new_tokens = 9, .stop_at = 3}, {1, 3});
  EXPECT_EQ(stopped.finish_reason, FinishReason::kEos);
  EXPECT_EQ(to_ids(stopped.new_ids), (Ids{1, 3}));
  EXPECT_EQ(decode({.new_tokens = 2, .stop_at = 3}, {1, 3}).finish_reason, FinishReason::kEos);
}

TEST(GreedyDecoder, RefusesToGenerateNothing) {
  EXPECT_THROW(GreedyDecoder({.new_tokens = 0}, 3, 100), c10::ValueError);
  EXPECT_THROW(GreedyDecoder({.new_tokens = -1}, 3, 100), c10::ValueError);
}

TEST(GreedyDecoder, WaitsForEveryRowAndFillsTheEarlierOnesUp) {
  const GenerateOptions options{.new_tokens = 9, .stop_at = 3};
  GreedyDecoder decoder(options, 3, 100);
  decoder.choose(torch::cat({logits_for(3), logits_for(1)}));
  EXPECT_FALSE(decoder.finished());
  const torch::Tensor fed = decoder.choose(torch::cat({logits_for(2), logits_for(3)}));
  EXPECT_TRUE(decoder.finished());
  EXPECT_TRUE(fed.equal(torch::tensor({{3}, {3}}, torch::kInt64)));
  EXPECT_TRUE(decoder.result().new_ids.equal(torch::tensor({{3, 3}, {1, 3}}, torch::kInt64)));
}

TEST(GreedyDecoder, ReportsTheSmallestGapOfTheTwoBestLogits) {
  const GenerateOptions options{.new_tokens = 3};
  GreedyDecoder decoder(options, 3, 100);
  for (const double gap : {0.75, 0.25, 0.5}) decoder.choose(logits_for(1, gap));
  EXPECT_DOUBLE_EQ(decoder.result().min_margin, 0.25);
}

TEST(GreedyDecoder, RefusesLogitsThatAreNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const GenerateOptions options{.new_tokens = 3};
    GreedyDecoder decoder(options, 3, 100);
    EXPECT_THROW(decoder.choose(logits_for(1, bad)), c10::ValueError);
  }
}

/// Advances by what the test says, whenever it is asked.
Clock fake_clock(const std::vector<double>& times) {
  return [times, next = size_t{0}]() mutable { return times.at(next++); };
}

TEST(Timings, Case25ThreeRatesAreThreeFigures) {
  for (const int64_t prompt : {4, 64, 512}) {
    // The prompt takes 2 s, each of 31 further tokens 0.5 s.
    std::vector<double> times = {10.0};
    for (int i = 0; i < 32; ++i) times.push_back(12.0 + 0.5 * i);
    const GenerateOptions options{.new_tokens = 32, .clock = fake_clock(times)};
    GreedyDecoder decoder(options, prompt, 1000);
    while (!decoder.finished()) decoder.choose(logits_for(1));
    const Timings timings = decoder.result().timings;
    EXPECT_DOUBLE_EQ(timings.ttft_ms(), 2000.0);
    EXPECT_DOUBLE_EQ(timings.prefill_tokens_per_s(), static_cast<double>(prompt) / 2.0);
    EXPECT_DOUBLE_EQ(timings.decode_tokens_per_s().value(), 2.0);  // 31 tokens in 15.5 s: no prompt, no first token
    EXPECT_DOUBLE_EQ(timings.tokens_per_s(), 32 / 17.5);
    EXPECT_EQ(timings.step_ms(), std::vector<double>(31, 500.0));
  }
}

TEST(Timings, Case25ASingleTokenHasNoDecodeRate) {
  const Generation generation = decode({.new_tokens = 1, .clock = fake_clock({1.0, 3.0})}, {2});
  EXPECT_FALSE(generation.timings.decode_tokens_per_s().has_value());
  EXPECT_DOUBLE_EQ(generation.timings.ttft_ms(), 2000.0);
  EXPECT_TRUE(generation.timings.step_ms().empty());
}

TEST(Generate, CallsBackWithEveryTokenInOrder) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  MaskedOffsetsCache cache(model->shape());
  Ids heard;
  const GenerateOptions options{.new_tokens = 4,
                                .on_token = [&](const torch::Tensor& next) { heard.push_back(next.item<int64_t>()); }};
  EXPECT_EQ(to_ids(generate(model, cache, to_row({2, 14, 0, 4}), options).new_ids), heard);
  EXPECT_EQ(cache.length(), 7);  // the last token was never fed
}

TEST(Generate, Case24AnEmptyPromptIsRefused) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  MaskedOffsetsCache cache(model->shape());
  const torch::Tensor empty = torch::empty({1, 0}, torch::kInt64);
  EXPECT_THROW(generate(model, cache, empty, {.new_tokens = 1}), c10::ValueError);
  EXPECT_THROW(generate_naively(NaiveGpt2(checkpoint), empty, {.new_tokens = 1}), c10::ValueError);
}

TEST(Generate, RefusesIdsOutsideTheVocabularyAndFeedsNothing) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  MaskedOffsetsCache cache(model->shape());
  for (const int64_t bad : {-1, 16}) {
    EXPECT_THROW(generate(model, cache, to_row({3, bad}), {.new_tokens = 1}), c10::ValueError);
    EXPECT_THROW(generate_naively(NaiveGpt2(checkpoint), to_row({3, bad}), {.new_tokens = 1}), c10::ValueError);
  }
  EXPECT_EQ(cache.length(), 0);
}

}  // namespace
}  // namespace kvbook

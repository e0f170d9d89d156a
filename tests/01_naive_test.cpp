// Chapter 1: what the oracle itself must get right. Its logits and tokens against transformers: golden_test.
#include <gtest/gtest.h>

#include "chapters/01_naive/naive_gpt2.h"
#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "common/gpt2.h"
#include "tests/support/golden.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

TEST(NaiveGpt2, ALaterTokenDoesNotMoveEarlierLogits) {
  const NaiveGpt2 model(golden_checkpoint("nano"));
  const torch::Tensor one = model.hidden(to_row({7, 2, 9}));
  const torch::Tensor other = model.hidden(to_row({7, 2, 4}));
  EXPECT_LE(max_abs_diff(one.narrow(1, 0, 2), other.narrow(1, 0, 2)), 1e-12);
  EXPECT_GT(max_abs_diff(one.narrow(1, 2, 1), other.narrow(1, 2, 1)), 1e-3);
}

TEST(NaiveGpt2, RefusesMoreTokensThanTheContextHas) {
  const NaiveGpt2 model(golden_checkpoint("nano"));
  EXPECT_NO_THROW(model.hidden(torch::zeros({1, 8}, torch::kInt64)));
  EXPECT_THROW(model.hidden(torch::zeros({1, 9}, torch::kInt64)), c10::IndexError);
}

TEST(NaiveGpt2, ComputesWhatTheSharedModelComputesThoughTheyShareNoAttention) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  Gpt2 model(checkpoint);
  MaskedOffsetsCache cache(checkpoint.config.shape());
  const torch::Tensor ids = torch::tensor({{1, 2, 3, 4, 5, 6, 7}, {90, 80, 70, 60, 50, 40, 30}}, torch::kInt64);
  const torch::Tensor shared = model->logits(model->hidden({ids}, cache));
  const NaiveGpt2 naive(checkpoint);
  EXPECT_LE(max_abs_diff(naive.logits(naive.hidden(ids)), shared), 1e-9);
}

TEST(NaiveGeneration, Case05EndsWithTheContextAndRefusesALongerPrompt) {
  const NaiveGpt2 model(golden_checkpoint("nano"));
  const torch::Tensor prompt = to_row({2, 14, 0, 4, 3, 0});
  EXPECT_EQ(generate_naively(model, prompt, {.new_tokens = 3}).finish_reason, FinishReason::kLength);
  const Generation cut = generate_naively(model, prompt, {.new_tokens = 4});
  EXPECT_EQ(cut.new_ids.size(1), 3);
  EXPECT_EQ(cut.finish_reason, FinishReason::kContextFull);
  EXPECT_THROW(generate_naively(model, torch::zeros({1, 9}, torch::kInt64), {.new_tokens = 1}), c10::IndexError);
}

TEST(NaiveSession, RemembersNoKeysAndAllWords) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  NaiveSession session(checkpoint);
  const std::vector<int64_t> first = to_ids(session.generate(to_row({5, 6, 7}), {.new_tokens = 4}).new_ids);
  const std::vector<int64_t> second = to_ids(session.generate(to_row({8, 9}), {.new_tokens = 4}).new_ids);
  std::vector<int64_t> joined = {5, 6, 7};
  joined.insert(joined.end(), first.begin(), first.end());
  joined.insert(joined.end(), {8, 9});
  EXPECT_EQ(to_ids(generate_naively(NaiveGpt2(checkpoint), to_row(joined), {.new_tokens = 4}).new_ids), second);
  EXPECT_EQ(session.bytes(), 0);
}

}  // namespace
}  // namespace kvbook

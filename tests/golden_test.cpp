// The outside oracle: what transformers computed in float64 for the two small models in data/golden.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include "chapters/01_naive/naive_gpt2.h"
#include "tests/support/caches.h"
#include "tests/support/oracle.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

constexpr double kTolerance = 1.5e-9;  // 1e-9, and half a unit for references rounded to 9 decimals

torch::Tensor doubles(const std::vector<double>& values) { return torch::tensor(values, torch::kFloat64); }

void expect_run(const GoldenRun& run, const Generation& generation) {
  EXPECT_EQ(to_ids(generation.new_ids), run.new_ids()) << "smallest gap " << generation.min_margin;
  EXPECT_LE(max_abs_diff(generation.last_logits[0], doubles(run.end_logits)), kTolerance);
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(GetParam());
};

TEST_P(Golden, Case15TheNaiveModelGivesTransformersLogitsAndTokens) {
  const NaiveGpt2 naive(checkpoint_);
  for (const GoldenRun& run : golden_runs(GetParam(), "full")) {
    const torch::Tensor prompt = to_row(run.prompt);
    EXPECT_LE(max_abs_diff(naive.logits(naive.hidden(prompt))[0][-1], doubles(run.last_logits)), kTolerance);
    expect_run(run, generate_naively(naive, prompt, {.new_tokens = run.new_tokens()}));
  }
}

TEST_P(Golden, Case15EveryCacheGivesTransformersTokensAndLogits) {
  Gpt2 model(checkpoint_);
  for (const Chapter& chapter : exact_chapters()) {
    if (!chapter.make_cache) continue;
    SCOPED_TRACE(chapter.name);
    for (const GoldenRun& run : golden_runs(GetParam(), "full")) {
      const auto cache = chapter.make_cache(model->shape(), default_cache_options(model->shape()));
      expect_run(run, generate(model, *cache, to_row(run.prompt), {.new_tokens = run.new_tokens()}));
    }
  }
}

TEST_P(Golden, Case06EveryWindowGivesTheTokensAndLogitsOfTheBandedOracle) {
  Gpt2 model(checkpoint_);
  for (const Chapter& chapter : exact_chapters()) {
    if (!chapter.takes_window && !chapter.takes_layer_windows) continue;
    for (const GoldenRun& run : golden_runs(GetParam(), "window")) {
      SCOPED_TRACE(chapter.name + ", window " + std::to_string(*run.window));
      CacheOptions options = default_cache_options(model->shape());
      options.window = *run.window;
      options.layer_windows.assign(model->shape().layers, *run.window);
      const auto cache = chapter.make_cache(model->shape(), options);
      expect_run(run, generate(model, *cache, to_row(run.prompt), {.new_tokens = run.new_tokens()}));
    }
  }
}

TEST_P(Golden, OurOwnBandedRecomputeAgreesWithTheReference) {
  for (const GoldenRun& run : golden_runs(GetParam(), "window")) {
    const torch::Tensor logits = full_recompute(checkpoint_, to_row(run.prompt), *run.window)[0][-1];
    EXPECT_LE(max_abs_diff(logits, doubles(run.last_logits)), kTolerance) << "window " << *run.window;
  }
}

TEST_P(Golden, TheCachesHoldTheKeysAndValuesThatTransformersHolds) {
  const nlohmann::json reference = golden_json(GetParam() + "/past_key_values.json");
  const torch::Tensor ids = to_row(reference.at("prompt"));
  const torch::Tensor all_logits = tensor_of(reference.at("all_logits"));
  Gpt2 model(checkpoint_);
  const NaiveGpt2 naive(checkpoint_);
  EXPECT_LE(max_abs_diff(naive.logits(naive.hidden(ids))[0], all_logits), 1e-9);
  for (const Chapter& chapter : exact_chapters()) {
    if (!chapter.make_cache) continue;
    SCOPED_TRACE(chapter.name);
    for (const int64_t first : {ids.size(1), int64_t{1}, int64_t{3}}) {  // whole; one by one; three, then one by one
      const auto inner = chapter.make_cache(model->shape(), default_cache_options(model->shape()));
      RecordingCache cache(*inner);
      std::vector<int64_t> sizes = {first};
      sizes.insert(sizes.end(), ids.size(1) - first, 1);
      EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes)[0], all_logits), 1e-9);
      for (size_t layer = 0; layer < cache.seen.size(); ++layer) {
        const nlohmann::json& want = reference.at("layers").at(layer);
        EXPECT_LE(max_abs_diff(cache.seen[layer].keys[0], tensor_of(want.at("keys"))), 1e-9);
        EXPECT_LE(max_abs_diff(cache.seen[layer].values[0], tensor_of(want.at("values"))), 1e-9);
      }
    }
  }
}

TEST(GoldenBatch, ThreeRowsGiveTransformersLogitsInEveryCache) {
  const nlohmann::json reference = golden_json("nano/batch.json");
  const torch::Tensor ids = tensor_of(reference.at("ids")).to(torch::kInt64);
  const torch::Tensor want = tensor_of(reference.at("logits"));
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const NaiveGpt2 naive(checkpoint);
  EXPECT_LE(max_abs_diff(naive.logits(naive.hidden(ids)), want), 1e-9);
  for (const Chapter& chapter : exact_chapters()) {
    if (!chapter.make_cache) continue;
    const auto cache = chapter.make_cache(model->shape(), default_cache_options(model->shape()));
    EXPECT_LE(max_abs_diff(in_chunks(model, *cache, ids, {3, 1, 1, 1}), want), 1e-9) << chapter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(BothModels, Golden, testing::Values("nano", "tiny"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvbook

// Several requests at once, each held to what transformers says of it alone.
#include "common/batch_generation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Ids = std::vector<int64_t>;

class BatchGenerationTest : public testing::Test {
 protected:
  BatchGeneration run(const std::vector<Request>& requests, const BatchOptions& options) {
    RaggedBatchCache cache(model_->shape(), model_->shape().context, options.rows);
    BatchGeneration done = generate_batch(model_, cache, requests, options);
    for (int64_t row = 0; row < options.rows; ++row)
      EXPECT_EQ(cache.length(row), 0) << "row " << row << " has not left";
    return done;
  }

  Checkpoint checkpoint_ = golden_checkpoint("tiny");
  Gpt2 model_{checkpoint_};
};

TEST_F(BatchGenerationTest, EveryRequestGetsTheTokensThatTransformersGivesItAlone) {
  std::vector<Request> requests;
  std::vector<GoldenRun> golden = golden_runs("tiny", "full");
  for (const GoldenRun& run : golden) requests.push_back({run.prompt, run.new_tokens()});
  ASSERT_GE(requests.size(), 4U);
  for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{3}, static_cast<int64_t>(requests.size())}) {
    for (const Batching batching : {Batching::kContinuous, Batching::kStatic}) {
      for (const bool pad_left : {false, true}) {
        for (const std::optional<int64_t> chunk : {std::optional<int64_t>{}, {1}, {3}}) {
          SCOPED_TRACE(fmt::format("{} rows, static {}, pad left {}, chunk {}", rows, batching == Batching::kStatic,
                                   pad_left, chunk.value_or(0)));
          const auto done = run(requests, {.rows = rows, .batching = batching, .pad_left = pad_left, .chunk = chunk});
          for (size_t i = 0; i < golden.size(); ++i) {
            EXPECT_EQ(to_ids(done.answers[i].new_ids), golden[i].new_ids()) << "request " << i;
            EXPECT_EQ(done.answers[i].finish_reason, FinishReason::kLength);
            const torch::Tensor want = torch::tensor(golden[i].end_logits, torch::kFloat64).unsqueeze(0);
            EXPECT_LE(max_abs_diff(done.answers[i].last_logits, want), 2e-9);
          }
        }
      }
    }
  }
}

TEST_F(BatchGenerationTest, RequestsEndForTheirOwnReasons) {
  const Ids full(64, 7), longish(62, 7);
  const Ids free = to_ids(greedy_recompute(checkpoint_, to_row({5, 6, 7}), 64, 3));
  const BatchOptions options{.rows = 2, .stop_at = free[1]};
  const auto done = run({{full, 5}, {longish, 9}, {{5, 6, 7}, 9}, {{5, 6}, 1}}, options);
  EXPECT_EQ(done.answers[0].finish_reason, FinishReason::kContextFull);
  EXPECT_EQ(done.answers[0].new_ids.size(1), 1);  // chosen from position 63, and never fed
  const Ids stopped(free.begin(), std::find(free.begin(), free.end(), free[1]) + 1);
  EXPECT_EQ(to_ids(done.answers[2].new_ids), stopped);
  EXPECT_EQ(done.answers[2].finish_reason, FinishReason::kEos);
  EXPECT_EQ(done.answers[3].new_ids.size(1), 1);
}

TEST_F(BatchGenerationTest, PaddingIsCountedAsWhatIsComputedBesideTheTokens) {
  // 3 and 1 tokens of prompt, 2 new ones each: a forward of 2 x 3 with 2 of padding, then one of 2 x 1.
  const auto done = run({{{5, 6, 7}, 2}, {{5}, 2}}, {.rows = 2});
  EXPECT_EQ(done.forwards, 2);
  EXPECT_EQ(done.real_tokens, 6);
  EXPECT_EQ(done.padding_tokens, 2);
}

TEST_F(BatchGenerationTest, AStaticBatchComputesWhatHasFinishedAlongAContinuousOneDoesNot) {
  // One prompt token each; 4 and 1 new tokens: the first row decodes three times, the second never.
  const std::vector<Request> requests = {{{5}, 4}, {{6}, 1}, {{7}, 1}};
  const auto fixed = run(requests, {.rows = 2, .batching = Batching::kStatic});
  EXPECT_EQ(fixed.real_tokens, 3 + 3);
  EXPECT_EQ(fixed.padding_tokens, 3);
  EXPECT_EQ(fixed.forwards, 1 + 3 + 1);  // the third waits until both have ended
  const auto continuous = run(requests, {.rows = 2});
  EXPECT_EQ(continuous.real_tokens, 3 + 3);
  EXPECT_EQ(continuous.padding_tokens, 0);
  EXPECT_EQ(continuous.forwards, 1 + 1 + 3);  // it takes the second's place before the first decodes
}

TEST_F(BatchGenerationTest, TokensAreToldAsTheyComeWithTheirRequest) {
  std::vector<Ids> heard(3);
  BatchOptions options{.rows = 2};
  options.on_token = [&](size_t request, int64_t id) { heard[request].push_back(id); };
  const auto done = run({{{5, 6, 7}, 4}, {{5}, 2}, {{9, 9}, 3}}, options);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(heard[i], to_ids(done.answers[i].new_ids));
}

TEST_F(BatchGenerationTest, TimesCountFromTheStartOfAll) {
  double now = 0;
  const BatchOptions options{.rows = 1, .clock = [&] { return now++; }};
  const auto done = run({{{5}, 1}, {{6}, 1}}, options);
  EXPECT_LT(done.answers[1].timings.start, done.answers[0].timings.token_times.front());
  EXPECT_GT(done.answers[1].timings.token_times.front(), done.answers[0].timings.token_times.front());
}

TEST_F(BatchGenerationTest, ACacheThatHoldsTokensOrWhoseRowsAdvanceTogetherIsRefused) {
  PreallocatedCache together(model_->shape(), 64);
  EXPECT_THROW(generate_batch(model_, together, {{{5}, 1}}, {.rows = 1}), c10::ValueError);
  RaggedBatchCache used(model_->shape(), 64, 2);
  model_->hidden({.ids = to_row({5}), .rows = to_row({1})[0]}, used);
  EXPECT_THROW(generate_batch(model_, used, {{{5}, 1}}, {.rows = 2}), c10::ValueError);
  EXPECT_EQ(used.length(1), 1);
}

TEST_F(BatchGenerationTest, EveryMixOfOptionsGivesEachRequestItsOwnTokens) {
  const std::vector<Request> requests = {{{5, 6, 7}, 6}, {{8}, 1}, {{9, 10, 11, 12, 13}, 4}, {{14, 15}, 9}};
  std::vector<Ids> alone;
  for (const Request& request : requests) {
    alone.push_back(to_ids(greedy_recompute(checkpoint_, to_row(request.prompt), 64, request.new_tokens)));
  }
  const int64_t stop = alone[3][1];
  for (const int64_t rows : {1, 2, 3, 6}) {  // six: more than there are requests
    for (const Batching batching : {Batching::kContinuous, Batching::kStatic}) {
      for (const std::optional<int64_t> chunk : {std::optional<int64_t>{}, {2}}) {
        for (const std::optional<int64_t> stop_at : {std::optional<int64_t>{}, {stop}}) {
          const auto done = run(requests, {.rows = rows, .batching = batching, .chunk = chunk, .stop_at = stop_at});
          for (size_t i = 0; i < requests.size(); ++i) {
            Ids want = alone[i];
            if (stop_at)
              want.resize(std::min(want.end(), std::find(want.begin(), want.end(), stop) + 1) - want.begin());
            EXPECT_EQ(to_ids(done.answers[i].new_ids), want) << rows << " rows, request " << i;
          }
        }
      }
    }
  }
}

TEST_F(BatchGenerationTest, ABadRequestIsRefusedBeforeAnythingIsFed) {
  RaggedBatchCache cache(model_->shape(), 64, 2);
  const auto refused = [&](const std::vector<Request>& requests, const BatchOptions& options) {
    EXPECT_THROW(generate_batch(model_, cache, requests, options), c10::Error);
    EXPECT_EQ(cache.bytes(), 0);
  };
  refused({}, {.rows = 2});
  refused({{{5}, 1}, {{}, 1}}, {.rows = 2});
  refused({{{5}, 1}, {{97}, 1}}, {.rows = 2});
  refused({{{5}, 1}, {Ids(65, 5), 1}}, {.rows = 2});
  refused({{{5}, 0}}, {.rows = 2});
  refused({{{5}, 1}}, {.rows = 0});
  refused({{{5}, 1}}, {.rows = -1});
  refused({{{5}, 1}}, {.rows = 3});  // the cache has two
  refused({{{5}, 1}}, {.rows = 2, .chunk = 0});
}

}  // namespace
}  // namespace kvbook

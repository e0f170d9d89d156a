// What every cache has to keep whose rows have lengths of their own: each row as if it were alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/conformance/conformance_suite.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

torch::Tensor numbers(const Numbers& values) { return to_row(values)[0]; }

/// What is fed to some rows in one forward: their tokens, filled up to a rectangle with id 9, which is a word.
Step padded(const std::vector<Numbers>& tokens, bool pad_left, const Numbers& rows = {}) {
  const auto B = static_cast<int64_t>(tokens.size());
  int64_t T = 0;
  for (const Numbers& row : tokens) T = std::max(T, static_cast<int64_t>(row.size()));
  Step step{.ids = torch::full({B, T}, 9, torch::kInt64), .counts = torch::zeros({B}, torch::kInt64)};
  for (int64_t b = 0; b < B; ++b) {
    const auto n = static_cast<int64_t>(tokens[b].size());
    step.counts[b] = n;
    if (n > 0) step.ids[b].narrow(0, pad_left ? T - n : 0, n).copy_(numbers(tokens[b]));
  }
  if (!rows.empty()) step.rows = numbers(rows);
  step.pad_left = pad_left;
  return step;
}

/// A model and a cache of some rows, and what each row has been fed: every forward is compared with the solo run.
class Rows {
 public:
  Rows(const CacheCase& cache_case, int64_t rows)
      : cache_case_(cache_case),
        checkpoint_(golden_checkpoint("nano", cache_case.dtype)),
        model_(cache_case.make_model(checkpoint_)),
        inner_(cache_case.make_cache(model_->shape(), rows)),
        cache_(std::make_unique<FailingCache>(*inner_)),
        fed_(rows) {}

  /// Feeds rows[b] the tokens[b], and compares the logits of every token with those of its row alone, uncached.
  void feed(const std::vector<Numbers>& tokens, bool pad_left, Numbers rows = {}) {
    if (rows.empty()) {
      for (size_t b = 0; b < tokens.size(); ++b) rows.push_back(static_cast<int64_t>(b));
    }
    const Step step = padded(tokens, pad_left, rows);
    const torch::Tensor logits = model_->logits(model_->hidden(step, *cache_));  // [B, T, V]
    for (size_t b = 0; b < tokens.size(); ++b) {
      Numbers& fed = fed_[rows[b]];
      fed.insert(fed.end(), tokens[b].begin(), tokens[b].end());
      EXPECT_EQ(cache_->length(rows[b]), static_cast<int64_t>(fed.size())) << "row " << rows[b];
      const auto n = static_cast<int64_t>(tokens[b].size());
      if (n == 0) continue;
      const torch::Tensor got = logits[static_cast<int64_t>(b)].narrow(0, pad_left ? logits.size(1) - n : 0, n);
      const torch::Tensor alone = full_recompute(checkpoint_, to_row(fed), 8)[0];
      EXPECT_LE(max_abs_diff(got, alone.narrow(0, alone.size(0) - n, n)), cache_case_.tolerance) << "row " << rows[b];
    }
  }

  /// The first `length` tokens of a row stay.
  void take_back(int64_t row, int64_t length) {
    cache_->truncate(row, length);
    fed_[row].resize(length);
  }

  /// What the cache has of `prompt` for an empty row, not all of it. Returns how many tokens.
  int64_t adopt(int64_t row, const Numbers& prompt) {
    const int64_t adopted = cache_->adopt_prefix(row, prompt);
    EXPECT_EQ(cache_->length(row), adopted);
    fed_[row].assign(prompt.begin(), prompt.begin() + adopted);
    return adopted;
  }

  /// A forward that fails after layer 0.
  void fail(const std::vector<Numbers>& tokens, bool pad_left, const Numbers& rows) {
    cache_->arm();
    EXPECT_THROW(model_->hidden(padded(tokens, pad_left, rows), *cache_), c10::Error);
  }

  Gpt2& model() { return model_; }
  KVCache& cache() { return *cache_; }

 private:
  const CacheCase& cache_case_;
  Checkpoint checkpoint_;
  Gpt2 model_;
  std::unique_ptr<KVCache> inner_;
  std::unique_ptr<FailingCache> cache_;
  std::vector<Numbers> fed_;
};

class RaggedConformance : public testing::TestWithParam<std::tuple<CacheCase, bool>> {
 protected:
  const CacheCase& cache_case() const { return std::get<0>(GetParam()); }
  bool pad_left() const { return std::get<1>(GetParam()); }
};

TEST_P(RaggedConformance, Case27EachRowEqualsItsSoloRunAndNotOnlyTheLongest) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6, 7}, {6, 7}}, pad_left());
  rows.feed({{1}, {2}}, pad_left());
  rows.feed({{3}, {4}}, pad_left());
}

TEST_P(RaggedConformance, Case28EveryRowIsWrittenWhereItsOwnLengthSays) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6}, {1, 2, 3, 4}}, pad_left());
  for (const int64_t id : {7, 8, 9}) rows.feed({{id}, {id}}, pad_left());
  for (const int64_t row : {0, 1}) {
    Numbers held = rows.cache().slots(row);
    held.erase(std::remove(held.begin(), held.end(), kEmptySlot), held.end());
    Numbers want(row == 0 ? 5 : 7);
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(held, want) << "row " << row;
  }
}

TEST_P(RaggedConformance, ChunksOfUnequalLengthOnRowsOfUnequalLength) {
  Rows rows(cache_case(), 3);
  rows.feed({{5, 6, 7}, {6}, {}}, pad_left());
  rows.feed({{1}, {2, 3, 4}, {8, 9}}, pad_left());
  rows.feed({{1, 2, 3}, {}, {10}}, pad_left());
}

TEST_P(RaggedConformance, AStepMayBeAboutSomeRowsInAnyOrder) {
  Rows rows(cache_case(), 4);
  rows.feed({{5, 6, 7}, {6}, {1, 2}, {3}}, pad_left());
  rows.feed({{4}, {8, 9}}, pad_left(), {2, 3});
  rows.feed({{4}, {8, 9}, {7}}, pad_left(), {3, 0, 2});
  rows.feed({{1}}, pad_left(), {1});
  rows.feed({{1}, {2}, {3}, {4}}, pad_left());
}

TEST_P(RaggedConformance, ARowThatLeavesMakesRoomForAnother) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6, 7, 8, 1}, {6, 7}}, pad_left());
  rows.take_back(0, 0);
  rows.feed({{3, 4}}, pad_left(), {0});  // shorter than the row that left: what is behind it may not be seen
  rows.feed({{1}, {2}}, pad_left());
}

TEST_P(RaggedConformance, TokensOfOneRowCanBeTakenBack) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6, 7}, {6, 7}}, pad_left());
  rows.take_back(0, 1);
  EXPECT_EQ(rows.cache().length(1), 2);
  rows.feed({{8, 9}, {4}}, pad_left());
  rows.cache().begin(padded({{1}, {2}}, pad_left()));
  rows.take_back(1, 1);  // abandons the forward that is open
  rows.feed({{1}, {2}}, pad_left());
  EXPECT_THROW(rows.cache().truncate(1, 3), c10::IndexError);
  EXPECT_THROW(rows.cache().truncate(2, 0), c10::IndexError);
}

/// A cache that adopts nothing is fed the whole prompt, and has to give the same.
TEST_P(RaggedConformance, WhatIsAdoptedFromAnotherRowIsAsIfItHadBeenFed) {
  const Numbers prompt = {5, 6, 7, 8, 1, 2};
  for (const bool has_left : {false, true}) {
    Rows rows(cache_case(), 2);
    rows.feed({prompt, {9}}, pad_left());
    if (has_left) rows.take_back(0, 0);
    rows.take_back(1, 0);
    const int64_t adopted = rows.adopt(1, prompt);
    EXPECT_LT(adopted, static_cast<int64_t>(prompt.size())) << "the last token has to be computed";
    rows.feed({{prompt.begin() + adopted, prompt.end()}}, pad_left(), {1});
    rows.feed({{3}}, pad_left(), {1});
    if (!has_left) rows.feed({{4}, {3}}, pad_left());
  }
}

TEST_P(RaggedConformance, APromptIsNotTakenForAnotherThatDiffersInOneToken) {
  const Numbers first = {5, 6, 7, 8, 1, 2};
  Rows rows(cache_case(), 2);
  rows.feed({first, {9}}, pad_left());
  for (size_t place = 0; place < first.size(); ++place) {
    for (const int64_t other : {0, 3, 4, 9, 10, 11, 12, 13}) {
      Numbers prompt = first;
      prompt[place] = other;
      rows.take_back(1, 0);
      const int64_t adopted = rows.adopt(1, prompt);
      EXPECT_LE(adopted, static_cast<int64_t>(place));
      rows.feed({{prompt.begin() + adopted, prompt.end()}}, pad_left(), {1});
    }
  }
}

TEST_P(RaggedConformance, WhatIsAdoptedCanBeTakenBackAndTheOtherRowKeepsIt) {
  const Numbers prompt = {5, 6, 7, 8, 1};
  Rows rows(cache_case(), 2);
  rows.feed({prompt, {9}}, pad_left());
  rows.take_back(1, 0);
  const int64_t adopted = rows.adopt(1, prompt);
  if (adopted > 0) rows.take_back(1, adopted - 1);
  rows.feed({{3, 4}}, pad_left(), {1});
  rows.feed({{2}, {2}}, pad_left());
}

TEST_P(RaggedConformance, Case33NothingIsAdoptedFromAForwardThatFailed) {
  const Numbers prompt = {5, 6, 7, 8, 1, 2};
  Rows rows(cache_case(), 2);
  rows.feed({{9}, {9}}, pad_left());
  rows.take_back(0, 0);
  rows.fail({prompt}, pad_left(), {0});
  const int64_t adopted = rows.adopt(0, prompt);
  rows.feed({{prompt.begin() + adopted, prompt.end()}}, pad_left(), {0});
}

TEST_P(RaggedConformance, PositionsCountTokensOnly) {
  const auto cache = cache_case().make_cache(kSmallShape, /*rows=*/2);
  const torch::Tensor first = cache->begin(padded({{5, 6, 7}, {6, 7}}, pad_left()));
  EXPECT_TRUE(first.equal(pad_left() ? torch::tensor({{0, 1, 2}, {0, 0, 1}}) : torch::tensor({{0, 1, 2}, {0, 1, 0}})));
}

TEST_P(RaggedConformance, WhatStandsInThePaddingIsNeitherStoredNorSeen) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6, 7}, {6}}, pad_left());
  const Step step = padded({{1}, {2, 3}}, pad_left());
  rows.cache().begin(step);
  torch::Tensor key = torch::ones({2, 2, 2, 4}, torch::dtype(cache_case().dtype));  // [B, H, T, D]
  key[0].select(1, pad_left() ? 0 : 1).fill_(kNaN);                                 // row 0's padding
  for (int64_t layer = 0; layer < 2; ++layer) {
    const KeyValues kv = rows.cache().update(layer, key, key);
    EXPECT_TRUE(kv.keys.isfinite().all().item<bool>());
    EXPECT_TRUE(kv.values.isfinite().all().item<bool>());
  }
  rows.cache().commit();
}

TEST_P(RaggedConformance, Case29NaNInAHiddenSlotOfAShortRowCannotLeak) {
  Rows rows(cache_case(), 2);
  rows.feed({{5, 6, 7}, {6}}, pad_left());
  rows.cache().begin(padded({{1, 2}, {2, 3}}, pad_left()));  // leaves NaN behind in both rows
  const torch::Tensor bad = torch::full({2, 2, 2, 4}, kNaN, torch::dtype(cache_case().dtype));
  for (int64_t layer = 0; layer < 2; ++layer) rows.cache().update(layer, bad, bad);
  rows.cache().abandon();
  rows.feed({{4, 4}, {8}}, pad_left());  // row 1 is handed its slot 2, which holds NaN, as row 0 is longer
  rows.feed({{1}, {2}}, pad_left());
}

TEST_P(RaggedConformance, Case41AFaultInARaggedForwardCostsNothing) {
  struct Try {
    std::vector<Numbers> before, failing;
    Numbers rows;  // of the step that fails
  };
  for (const Try& each : std::vector<Try>{{{}, {{9, 9}, {9}}, {0, 1}},                    // nothing held
                                          {{{5, 6, 7}, {6}}, {{9, 9}, {9}}, {0, 1}},      // all rows
                                          {{{5, 6, 7}, {6}}, {{9, 9}, {}}, {0, 1}},       // one of them without a token
                                          {{{5, 6, 7}, {6}}, {{9}}, {1}},                 // one row only
                                          {{{5, 6, 7, 1, 2, 3}, {6}}, {{9, 9}}, {0}}}) {  // up to the context's end
    for (const std::vector<Numbers>& again : std::vector<std::vector<Numbers>>{{{9, 9}, {9}}, {{1}, {2, 3}}}) {
      Rows rows(cache_case(), 2);
      if (!each.before.empty()) rows.feed(each.before, pad_left());
      rows.fail(each.failing, pad_left(), each.rows);
      for (size_t row = 0; row < each.before.size(); ++row) {
        EXPECT_EQ(rows.cache().length(static_cast<int64_t>(row)), static_cast<int64_t>(each.before[row].size()));
      }
      rows.feed(again, pad_left());
    }
  }
}

TEST_P(RaggedConformance, Case05ARowPastTheContextIsRefusedByTheModelBeforeTheCacheIsAsked) {
  Gpt2 model = cache_case().make_model(golden_checkpoint("nano", cache_case().dtype));
  const auto inner = cache_case().make_cache(model->shape(), 2);
  CountingCache cache(*inner);
  model->hidden(padded({{1, 2, 3, 4, 5, 6, 7}, {6}}, pad_left()), cache);
  EXPECT_THROW(model->hidden(padded({{8, 9}, {1}}, pad_left()), cache), c10::IndexError);
  EXPECT_EQ(cache.begins, 1);
  EXPECT_EQ(cache.length(0), 7);
  EXPECT_EQ(cache.length(1), 1);
  model->hidden(padded({{8}, {1, 2, 3}}, pad_left()), cache);
}

std::vector<CacheCase> ragged_cases() {
  std::vector<CacheCase> ragged;
  for (const CacheCase& each : conformance_cases()) {
    if (each.chapter.takes_rows) ragged.push_back(each);
  }
  return ragged;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RaggedConformance);  // a reader's cache need not take rows
INSTANTIATE_TEST_SUITE_P(EveryCache, RaggedConformance,
                         testing::Combine(testing::ValuesIn(ragged_cases()), testing::Bool()), [](const auto& info) {
                           return std::get<0>(info.param).name + (std::get<1>(info.param) ? "_left" : "_right");
                         });

}  // namespace
}  // namespace kvbook

#include "tests/conformance/conformance_suite.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "common/allocation_meter.h"
#include "tests/support/caches.h"
#include "tests/support/copy_counting_cache.h"
#include "tests/support/golden.h"
#include "tests/support/metered_cache.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Chunks = std::vector<int64_t>;

class CacheConformance : public testing::TestWithParam<CacheCase> {
 protected:
  const CacheCase& cache_case() const { return GetParam(); }
  std::vector<int64_t> windows() const { return cache_case().windows_in(checkpoint_.config.shape()); }
  std::unique_ptr<KVCache> fresh_cache() const { return cache_case().make_cache(checkpoint_.config.shape()); }
  bool takes_chunk_on_history() const { return cache_case().takes_chunk_on_history(); }
  Generation generate(Gpt2& model, KVCache& cache, const torch::Tensor& input, const GenerateOptions& options) const {
    return cache_case().generate(model, cache, input, options);
  }

  /// Feeds everything the way every cache allows: the first chunk whole, then one by one.
  static Chunks then_singles(int64_t first, int64_t T) {
    Chunks sizes = {first};
    sizes.insert(sizes.end(), T - first, 1);
    return sizes;
  }

  void expect_close(const torch::Tensor& got, const torch::Tensor& want) const {
    const double worst = max_abs_diff(got, want);
    EXPECT_LE(worst, cache_case().tolerance);
    RecordProperty("worst_error", fmt::format("{:.2e}", worst));
  }

  /// The first `T` of eight ids in each of one or three rows.
  static torch::Tensor some_ids(int64_t rows, int64_t T) {
    const torch::Tensor ids = torch::tensor(
        {{3, 1, 4, 1, 5, 9, 2, 6}, {9, 2, 6, 5, 3, 11, 0, 12}, {15, 0, 7, 7, 8, 10, 13, 1}}, torch::kInt64);
    return ids.narrow(0, 0, rows).narrow(1, 0, T);
  }

  /// Logits of every position without a cache; where a cache rounds, those that it gives itself when it is fed at once.
  torch::Tensor oracle(const torch::Tensor& ids) { return oracle(model_, checkpoint_, ids); }
  torch::Tensor oracle(Gpt2& model, const Checkpoint& checkpoint, const torch::Tensor& ids) const {
    const ModelShape shape = checkpoint.config.shape();
    if (!cache_case().rounds()) return full_recompute(checkpoint, ids, cache_case().windows_in(shape));
    return in_chunks(model, *cache_case().make_cache(shape), ids, {ids.size(1)});
  }

  /// Greedy tokens, [1, new_tokens], with everything so far fed afresh for each.
  torch::Tensor greedy_oracle(Gpt2& model, const Checkpoint& checkpoint, const torch::Tensor& prompt,
                              int64_t new_tokens) const {
    torch::Tensor ids = prompt;
    for (int64_t i = 0; i < new_tokens; ++i) {
      ids = torch::cat({ids, greedy_choice(oracle(model, checkpoint, ids).select(1, -1)).view({1, 1})}, 1);
    }
    return ids.narrow(1, prompt.size(1), new_tokens);
  }

  const Checkpoint checkpoint_ = golden_checkpoint("nano", GetParam().dtype);
  Gpt2 model_ = cache_case().make_model(checkpoint_);
  std::unique_ptr<KVCache> cache_ = fresh_cache();
};

TEST_P(CacheConformance, Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass) {
  for (const int64_t rows : {1, 3}) {
    const torch::Tensor ids = some_ids(rows, 5);
    const torch::Tensor want = oracle(ids);
    for (const Chunks& sizes : {Chunks{5}, {1, 4}, {2, 3}, {3, 2}, {4, 1}, {1, 1, 1, 1, 1}}) {
      SCOPED_TRACE(fmt::format("{} rows, fed as {}", rows, sizes));
      cache_->reset();
      const bool chunk_on_history = std::any_of(sizes.begin() + 1, sizes.end(), [](int64_t T) { return T > 1; });
      if (chunk_on_history && !takes_chunk_on_history()) {
        EXPECT_THROW(in_chunks(model_, *cache_, ids, sizes), c10::ValueError);
      } else {
        expect_close(in_chunks(model_, *cache_, ids, sizes), want);
      }
    }
    if (cache_case().rounds()) {
      EXPECT_GT(max_abs_diff(want, full_recompute(checkpoint_, ids, windows())), 1e-5) << "nothing was rounded";
    }
  }
}

TEST_P(CacheConformance, Case02ALaterTokenDoesNotMoveEarlierLogits) {
  const torch::Tensor one = model_->hidden({to_row({7, 2, 9})}, *cache_);
  cache_->reset();
  const torch::Tensor other = model_->hidden({to_row({7, 2, 4})}, *cache_);
  EXPECT_EQ(max_abs_diff(one.narrow(1, 0, 2), other.narrow(1, 0, 2)), 0.0);
  EXPECT_GT(max_abs_diff(one.narrow(1, 2, 1), other.narrow(1, 2, 1)), 1e-3);
}

TEST_P(CacheConformance, Case02ALaterTokenDoesNotMoveEarlierLogitsOnACacheWithHistory) {
  if (!takes_chunk_on_history()) {
    model_->hidden({to_row({5, 6})}, *cache_);
    EXPECT_THROW(model_->hidden({to_row({7, 2, 9})}, *cache_), c10::ValueError);
    return;
  }
  model_->hidden({to_row({5, 6})}, *cache_);
  const torch::Tensor one = model_->hidden({to_row({7, 2, 9})}, *cache_);
  cache_->reset();
  model_->hidden({to_row({5, 6})}, *cache_);
  const torch::Tensor other = model_->hidden({to_row({7, 2, 4})}, *cache_);
  EXPECT_EQ(max_abs_diff(one.narrow(1, 0, 2), other.narrow(1, 0, 2)), 0.0);
  EXPECT_GT(max_abs_diff(one.narrow(1, 2, 1), other.narrow(1, 2, 1)), 1e-3);
}

TEST_P(CacheConformance, Case03WhatAnAbandonedForwardLeftInTheSlotsGetsNoWeight) {
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5});
  const torch::Tensor want = oracle(ids);
  const ModelShape shape = model_->shape();
  for (const double poison : {1e4, std::numeric_limits<double>::quiet_NaN()}) {
    cache_->reset();
    const torch::Tensor first = model_->logits(model_->hidden({to_row({3})}, *cache_));
    const int64_t T = takes_chunk_on_history() ? 4 : 1;
    cache_->begin({torch::zeros({1, T}, torch::kInt64)});
    const torch::Tensor bad =
        torch::full({1, shape.kv_heads, T, shape.head_size}, poison, torch::dtype(cache_case().dtype));
    for (int64_t layer = 0; layer < shape.layers; ++layer) cache_->update(layer, bad, bad);
    cache_->abandon();
    const torch::Tensor rest = in_chunks(model_, *cache_, ids.narrow(1, 1, 4), {1, 1, 1, 1});
    expect_close(torch::cat({first, rest}, 1), want);
  }
}

TEST_P(CacheConformance, Case04AResetCacheIsAsGoodAsNew) {
  const torch::Tensor a = to_row({2, 14, 0, 4}), b = to_row({9, 0, 15});
  const torch::Tensor first = greedy_cached(model_, *cache_, a, 4);
  cache_->reset();
  EXPECT_EQ(cache_->length(), 0);
  EXPECT_EQ(cache_->bytes(), 0);
  const torch::Tensor second = greedy_cached(model_, *cache_, b, 4);
  cache_->reset();
  EXPECT_EQ(to_ids(greedy_cached(model_, *cache_, a, 4)), to_ids(first));
  const auto fresh = fresh_cache();
  EXPECT_EQ(to_ids(second), to_ids(greedy_cached(model_, *fresh, b, 4)));
}

TEST_P(CacheConformance, Case05GenerationEndsWithTheContext) {
  const torch::Tensor prompt = to_row({2, 14, 0, 4, 3, 0});  // 6 of 8 positions
  const torch::Tensor want = greedy_oracle(model_, checkpoint_, prompt, 3);
  for (const int64_t asked : {2, 3, 4, 100}) {
    cache_->reset();
    const Generation generation = generate(model_, *cache_, prompt, {.new_tokens = asked});
    const int64_t got = std::min<int64_t>(asked, 3);  // the third new token is never fed: positions 0 to 7
    EXPECT_EQ(to_ids(generation.new_ids), to_ids(want.narrow(1, 0, got)));
    EXPECT_EQ(generation.finish_reason, asked <= 3 ? FinishReason::kLength : FinishReason::kContextFull);
  }
}

TEST_P(CacheConformance, Case05APromptLongerThanTheContextIsRefusedAndNothingHasChanged) {
  const torch::Tensor prompt = to_row({2, 14, 0, 4});
  const torch::Tensor want = greedy_oracle(model_, checkpoint_, prompt, 3);
  EXPECT_THROW(generate(model_, *cache_, to_row({1, 2, 3, 4, 5, 6, 7, 8, 9}), {.new_tokens = 1}), c10::IndexError);
  EXPECT_EQ(cache_->length(), 0);
  EXPECT_EQ(cache_->bytes(), 0);
  EXPECT_EQ(to_ids(generate(model_, *cache_, prompt, {.new_tokens = 3}).new_ids), to_ids(want));
}

TEST_P(CacheConformance, Case05ATokenPastTheContextIsRefusedByTheModelBeforeTheCacheIsAsked) {
  CountingCache cache(*cache_);
  in_chunks(model_, cache, to_row({2, 14, 0, 4, 3, 0, 9, 2}), then_singles(3, 8));
  const int64_t bytes = cache.bytes(), begins = cache.begins;
  EXPECT_THROW(model_->hidden({to_row({2})}, cache), c10::IndexError);
  EXPECT_EQ(cache.begins, begins);
  EXPECT_EQ(cache.length(), 8);
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST_P(CacheConformance, Case05AFullCacheRefusesAnotherTokenAndKeepsWhatItHolds) {
  CacheOptions options = cache_case().options(model_->shape());
  options.capacity = 5;  // of a context of 8; caches that take none take all eight tokens
  const auto cache = cache_case().chapter.make_cache(model_->shape(), options);
  const torch::Tensor ids = some_ids(1, 8), want = oracle(ids);
  expect_close(in_chunks(model_, *cache, ids.narrow(1, 0, 5), then_singles(3, 5)), want.narrow(1, 0, 5));
  if (!cache_case().chapter.takes_capacity) {
    expect_close(in_chunks(model_, *cache, ids.narrow(1, 5, 3), {1, 1, 1}), want.narrow(1, 5, 3));
    return;
  }
  const auto element = static_cast<int64_t>(c10::elementSize(cache_case().dtype));
  const int64_t bytes = key_value_bytes(model_->shape(), 1, 5, element);
  EXPECT_EQ(cache->bytes(), bytes);
  EXPECT_THROW(model_->hidden({ids.narrow(1, 5, 1)}, *cache), c10::IndexError);
  EXPECT_EQ(cache->length(), 5);
  EXPECT_EQ(cache->bytes(), bytes);
  cache->reset();
  EXPECT_THROW(model_->hidden({ids.narrow(1, 0, 6)}, *cache), c10::IndexError);  // six at once, into none held
  EXPECT_EQ(cache->length(), 0);
}

TEST_P(CacheConformance, Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees) {
  for (const int64_t rows : {1, 3}) {
    const torch::Tensor ids = some_ids(rows, 8);
    const torch::Tensor want = oracle(ids);
    for (const Chunks& sizes : {Chunks{8}, {5, 3}, {1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 3}, {2, 6}}) {
      SCOPED_TRACE(fmt::format("{} rows, fed as {}", rows, sizes));
      const bool chunk_on_history = std::any_of(sizes.begin() + 1, sizes.end(), [](int64_t T) { return T > 1; });
      if (chunk_on_history && !takes_chunk_on_history()) continue;  // Case01 shows the refusal
      cache_->reset();
      expect_close(in_chunks(model_, *cache_, ids, sizes), want);
    }
  }
}

TEST_P(CacheConformance, Case08OneForwardOfSeveralTokensAdvancesTheLengthByThatMany) {
  model_->hidden({to_row({3, 1, 4})}, *cache_);
  EXPECT_EQ(cache_->length(), 3);
  model_->hidden({to_row({1})}, *cache_);
  EXPECT_EQ(cache_->length(), 4);
}

TEST_P(CacheConformance, PositionsGoOnFromWhatIsCommitted) {
  EXPECT_EQ(cache_->begin({to_row({3, 1, 4})}).equal(torch::arange(0, 3)), true);
  model_->hidden({to_row({3, 1, 4})}, *cache_);  // begin abandons the forward left open
  EXPECT_EQ(cache_->begin({to_row({3})}).equal(torch::arange(3, 4)), true);
}

TEST_P(CacheConformance, Case09TheCacheTakesTheDtypeOfTheModel) {
  std::vector<int64_t> numbers_held;  // as many in every dtype
  for (const auto dtype : {torch::kBFloat16, torch::kFloat64, torch::kFloat32}) {
    const Checkpoint checkpoint = golden_checkpoint("nano", dtype);
    Gpt2 model = cache_case().make_model(checkpoint);
    const auto inner = fresh_cache();
    RecordingCache cache(*inner);
    const torch::Tensor hidden = in_chunks(model, cache, to_row({3, 1, 4, 1}), then_singles(2, 4));
    EXPECT_EQ(hidden.scalar_type(), dtype);
    numbers_held.push_back(inner->bytes() / static_cast<int64_t>(c10::elementSize(dtype)));
    for (const KeyValues& kv : cache.seen) {
      EXPECT_EQ(kv.keys.scalar_type(), dtype);
      EXPECT_EQ(kv.values.scalar_type(), dtype);
    }
  }
  if (cache_case().rounds()) return;  // codes take a byte in every dtype
  EXPECT_EQ(numbers_held, std::vector<int64_t>(3, numbers_held.front()));
}

TEST_P(CacheConformance, Case10AnotherBatchSizeIsRefusedByNameAndNothingIsWritten) {
  const torch::Tensor row = to_row({2, 14, 0, 4});
  const torch::Tensor want = greedy_oracle(model_, checkpoint_, row, 4);
  const torch::Tensor hidden = model_->hidden({row}, *cache_);
  const int64_t bytes = cache_->bytes();
  try {
    model_->hidden({torch::zeros({2, 1}, torch::kInt64)}, *cache_);
    ADD_FAILURE() << "a batch of 2 was taken by a cache of 1 row";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("reset"), std::string::npos);
  }
  EXPECT_EQ(cache_->length(), 4);
  EXPECT_EQ(cache_->bytes(), bytes);

  torch::Tensor next = model_->logits(hidden.select(1, -1)).argmax(-1, true);
  EXPECT_EQ(to_ids(torch::cat({next, greedy_cached(model_, *cache_, next, 3)}, 1)), to_ids(want));
  cache_->reset();
  EXPECT_NO_THROW(model_->hidden({torch::zeros({2, 1}, torch::kInt64)}, *cache_));
}

TEST_P(CacheConformance, AnotherDtypeIsRefusedByNameUntilReset) {
  const auto other = cache_case().dtype == torch::kFloat64 ? torch::kFloat32 : torch::kFloat64;
  const Checkpoint checkpoint = golden_checkpoint("nano", other);
  Gpt2 model = cache_case().make_model(checkpoint);
  model_->hidden({to_row({2, 14})}, *cache_);
  try {
    model->hidden({to_row({0})}, *cache_);
    ADD_FAILURE() << "a key of another dtype was taken";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("reset"), std::string::npos);
  }
  EXPECT_EQ(cache_->length(), 2);
  EXPECT_NO_THROW(model_->hidden({to_row({0})}, *cache_));
  cache_->reset();
  EXPECT_NO_THROW(model->hidden({to_row({0})}, *cache_));
}

TEST_P(CacheConformance, AFirstForwardThatFailsBindsNothing) {
  for (const bool told : {false, true}) {  // abandon() called, or left to the model
    cache_->reset();
    FailingCache failing(*cache_);
    failing.arm();
    EXPECT_THROW(model_->hidden({torch::zeros({2, 3}, torch::kInt64)}, failing), c10::Error);
    if (told) {
      failing.abandon();
      EXPECT_EQ(cache_->bytes(), 0);
    }
    const torch::Tensor ids = to_row({3, 1, 4});  // another batch size now
    expect_close(in_chunks(model_, failing, ids, {3}), oracle(ids));
  }
}

TEST_P(CacheConformance, Case13InBFloat16TokensAgreeWhereTheGapIsWideEnough) {
  // bfloat16 keeps 8 bits: logits of size 4 move by some hundredths a layer. The gap of two logits can move by twice
  // that.
  const double tolerance = 0.15;
  const Checkpoint half = golden_checkpoint("nano", torch::kBFloat16);
  Gpt2 model = cache_case().make_model(half);
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5, 9, 2, 6});
  const torch::Tensor got = in_chunks(model, *cache_, ids, then_singles(4, 8)).to(torch::kFloat64);
  const torch::Tensor want = full_recompute(golden_checkpoint("nano", torch::kFloat64), ids, windows());
  EXPECT_LE(max_abs_diff(got, want), tolerance);
  const torch::Tensor best = std::get<0>(want.topk(2, -1));
  const torch::Tensor wide = (best.select(-1, 0) - best.select(-1, 1)) > 2 * tolerance;
  EXPECT_GE(wide.sum().item<int64_t>(), 2);
  EXPECT_TRUE(got.argmax(-1).masked_select(wide).equal(want.argmax(-1).masked_select(wide)));
}

TEST_P(CacheConformance, BytesAreThoseOfTheFormula) {
  const ModelShape shape = model_->shape();
  const auto element = static_cast<int64_t>(c10::elementSize(cache_case().dtype));
  for (const int64_t rows : {1, 3}) {
    cache_->reset();
    EXPECT_EQ(cache_->bytes(), 0);
    for (const int64_t T : {3, 1, 1, 1}) {
      model_->hidden({torch::zeros({rows, T}, torch::kInt64)}, *cache_);
      EXPECT_EQ(cache_->bytes(), cache_case().bytes(shape, rows, cache_->length(), element)) << rows << " rows";
    }
  }
}

/// bytes() is the cache's own word; here its tensors are weighed. One layer's keys more may be scratch.
TEST_P(CacheConformance, TheMemoryHeldIsWhatBytesSaysAndResetReleasesIt) {
  for (const int64_t rows : {1, 3}) {
    const auto inner = fresh_cache();
    MeteredCache cache(*inner);
    for (const int64_t T : {3, 1, 1, 1, 1}) {
      model_->hidden({torch::zeros({rows, T}, torch::kInt64)}, cache);
      if (T > 1) continue;  // it may still hold that forward's mask
      EXPECT_GE(cache.held(), cache.bytes()) << rows << " rows, " << cache.length() << " tokens";
      EXPECT_LE(cache.held(), cache.bytes() + cache.bytes() / (2 * model_->shape().layers));
    }
    cache.reset();
    EXPECT_EQ(cache.held(), 0) << "after reset()";
  }
}

/// The columns by name: what a trace shows of a cache, and what a mask is about.
TEST_P(CacheConformance, ColumnsNameTheKeysThatUpdateReturnsInTheirOrder) {
  const auto inner = cache_case().make_cache(kSmallShape);
  EXPECT_TRUE(inner->columns().empty());
  RecordingCache cache(*inner);
  for (const int64_t T : takes_chunk_on_history() ? Chunks{2, 1, 3, 1, 1} : Chunks{3, 1, 1, 1, 1, 1}) {
    forward_numbered(cache, T);  // keys that say their position
    for (size_t layer = 0; layer < cache.seen.size(); ++layer) {
      std::vector<int64_t> seen = numbers_of(cache.seen[layer].keys);
      const std::vector<int64_t>& named = cache.columns_seen[layer];
      ASSERT_EQ(named.size(), seen.size());
      for (size_t column = 0; column < seen.size(); ++column) {
        if (named[column] == kEmptySlot) seen[column] = kEmptySlot;
      }
      EXPECT_EQ(named, seen) << cache.length() << " tokens, layer " << layer;
    }
  }
  EXPECT_TRUE(inner->columns().empty()) << "no forward is open";
}

TEST_P(CacheConformance, WhatIsTakenBackIsAsIfItHadNeverCome) {
  const torch::Tensor ids = some_ids(1, 8), other = to_row({11, 13, 2, 7, 5, 5, 1, 3});
  const torch::Tensor want = oracle(ids);
  for (int64_t held = 1; held <= 8; ++held) {
    for (int64_t taken = 1; taken <= held; ++taken) {
      SCOPED_TRACE(fmt::format("{} held, {} taken back", held, taken));
      cache_->reset();
      const int64_t keep = held - taken;
      if (keep > 0) in_chunks(model_, *cache_, ids.narrow(1, 0, keep), then_singles(1, keep));
      in_chunks(model_, *cache_, other.narrow(1, 0, taken), Chunks(taken, 1));
      const int64_t most = cache_->can_give_back(), bytes = cache_->bytes();
      if (taken > most && keep > 0) {
        EXPECT_THROW(cache_->truncate(keep), c10::IndexError);
        EXPECT_EQ(cache_->length(), held);
        EXPECT_EQ(cache_->bytes(), bytes);
        continue;
      }
      cache_->truncate(keep);
      EXPECT_EQ(cache_->length(), keep);
      for (int64_t layer = 0; layer < model_->shape().layers; ++layer) {
        for (const int64_t position : cache_->layer_slots(layer)) EXPECT_LT(position, keep) << "layer " << layer;
      }
      const int64_t left = 8 - keep;
      if (left == 0) continue;
      const bool whole = keep == 0 || takes_chunk_on_history();  // a chunk looks at what single tokens would overwrite
      const torch::Tensor rest = ids.narrow(1, keep, left), want_rest = want.narrow(1, keep, left);
      Chunks sizes = whole && held % 2 == 0 ? Chunks{left} : Chunks(left, 1);
      if (cache_case().chapter.takes_pages && sizes.size() == 1 && left > 1) sizes = {1, left - 1};  // a copy first
      expect_close(in_chunks(model_, *cache_, rest, sizes), want_rest);
    }
  }
}

TEST_P(CacheConformance, AnAbandonedForwardLeavesNoMemoryAndNoColumnsBehind) {
  MeteredCache cache(*cache_);
  model_->hidden({to_row({3, 1, 4, 1, 5})}, cache);
  model_->hidden({to_row({9})}, cache);  // the mask of the first forward is gone
  const int64_t held = cache.held();
  const int64_t T = takes_chunk_on_history() ? 2 : 1;
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  const ModelShape shape = model_->shape();
  const torch::Tensor key = torch::ones({1, shape.kv_heads, T, shape.head_size}, torch::dtype(cache_case().dtype));
  for (int64_t layer = 0; layer < shape.layers; ++layer) cache.update(layer, key, key);
  cache.abandon();
  // At most its tokens, in a cache that grows, and what says where they lie; not a chunk that was staged beside others.
  const auto element = static_cast<int64_t>(c10::elementSize(cache_case().dtype));
  EXPECT_LE(cache.held(), held + key_value_bytes(shape, 1, T, element) + 128);
  for (int64_t layer = 0; layer < shape.layers; ++layer) EXPECT_TRUE(cache.layer_columns(layer).empty());
}

TEST_P(CacheConformance, AfterAResetTheSlotsNameTheNewSequenceOnly) {
  in_chunks(model_, *cache_, some_ids(1, 8), then_singles(3, 8));
  cache_->reset();
  model_->hidden({to_row({3})}, *cache_);
  for (int64_t layer = 0; layer < model_->shape().layers; ++layer) {
    for (const int64_t position : cache_->layer_slots(layer)) EXPECT_LE(position, 0) << "layer " << layer;
  }
}

TEST_P(CacheConformance, ALengthThatIsNotThereCannotBeTruncatedTo) {
  model_->hidden({to_row({3, 1})}, *cache_);
  for (const int64_t length : {-1, 3}) EXPECT_THROW(cache_->truncate(length), c10::IndexError);
  EXPECT_EQ(cache_->length(), 2);
  cache_->truncate(2);
  EXPECT_EQ(cache_->length(), 2);
  cache_->truncate(0);
  EXPECT_EQ(cache_->length(), 0);
  EXPECT_EQ(cache_->bytes(), 0);
}

TEST_P(CacheConformance, AForwardLeftOpenDoesNotSpoilWhatIsTakenBack) {
  const torch::Tensor ids = some_ids(1, 8), want = oracle(ids);
  const ModelShape shape = model_->shape();
  const torch::Tensor bad = torch::full({1, shape.kv_heads, 1, shape.head_size}, 1e4, torch::dtype(cache_case().dtype));
  for (int64_t keep = 1; keep < 7; ++keep) {
    SCOPED_TRACE(fmt::format("{} of {} tokens stay", keep, keep + 1));
    cache_->reset();
    in_chunks(model_, *cache_, ids.narrow(1, 0, keep), then_singles(1, keep));
    in_chunks(model_, *cache_, to_row({11}), {1});
    cache_->begin({to_row({7})});
    cache_->update(0, bad, bad);  // a ring has overwritten its oldest key now
    try {
      cache_->truncate(keep);
    } catch (const c10::IndexError&) {
      EXPECT_EQ(cache_->can_give_back(), 0);
      EXPECT_EQ(cache_->length(), keep + 1);
      continue;
    }
    expect_close(in_chunks(model_, *cache_, ids.narrow(1, keep, 8 - keep), Chunks(8 - keep, 1)),
                 want.narrow(1, keep, 8 - keep));
  }
}

TEST_P(CacheConformance, AllThatCanBeTakenBackAfterAForwardLeftOpenIsRight) {
  const torch::Tensor ids = some_ids(1, 8), want = oracle(ids);
  const ModelShape shape = model_->shape();
  const torch::Tensor bad = torch::full({1, shape.kv_heads, 1, shape.head_size}, 1e4, torch::dtype(cache_case().dtype));
  for (int64_t held = 1; held < 8; ++held) {
    cache_->reset();
    in_chunks(model_, *cache_, ids.narrow(1, 0, held), then_singles(1, held));
    cache_->begin({to_row({7})});
    for (int64_t layer = 0; layer < shape.layers; ++layer) cache_->update(layer, bad, bad);
    cache_->abandon();
    const int64_t keep = held - cache_->can_give_back();
    SCOPED_TRACE(fmt::format("{} of {} tokens stay", keep, held));
    cache_->truncate(keep);
    expect_close(in_chunks(model_, *cache_, ids.narrow(1, keep, 8 - keep), Chunks(8 - keep, 1)),
                 want.narrow(1, keep, 8 - keep));
  }
}

TEST_P(CacheConformance, SlotsNameTheKeysThatTheNextQuerySees) {
  const auto inner = cache_case().make_cache(kSmallShape);
  RecordingCache cache(*inner);
  for (const int64_t T : {3, 1, 1, 1, 1}) {
    const int64_t P = cache.length();
    std::vector<std::vector<int64_t>> slots;
    for (int64_t layer = 0; layer < kSmallShape.layers; ++layer) slots.push_back(cache.layer_slots(layer));
    EXPECT_EQ(cache.slots(), slots.front());
    forward_numbered(cache, T);
    if (T > 1) continue;
    for (size_t layer = 0; layer < slots.size(); ++layer) {
      std::vector<int64_t>&named = slots[layer], seen;
      const int64_t W = cache_case().windows_in(kSmallShape)[layer];
      const auto hidden = [&](int64_t p) { return p == kEmptySlot || p <= P - W; };
      named.erase(std::remove_if(named.begin(), named.end(), hidden), named.end());
      const torch::Tensor visible = cache.seen[layer].visible;
      for (size_t column = 0; column < cache.columns_seen[layer].size(); ++column) {
        const int64_t position = cache.columns_seen[layer][column];
        const bool sees = !visible.defined() || visible[0][static_cast<int64_t>(column)].item<bool>();
        if (sees && position < P) seen.push_back(position);
      }
      std::sort(seen.begin(), seen.end());
      std::sort(named.begin(), named.end());
      EXPECT_EQ(named, seen) << P << " tokens, layer " << layer;
    }
  }
}

TEST_P(CacheConformance, WhatTheCallerWritesIntoItsKeysAfterwardsChangesNothing) {
  const ModelShape shape = model_->shape();
  const auto ones = [&] {
    return torch::ones({1, shape.kv_heads, 1, shape.head_size}, torch::dtype(cache_case().dtype));
  };
  torch::Tensor key = ones(), value = ones();
  cache_->begin({to_row({3})});
  for (int64_t layer = 0; layer < shape.layers; ++layer) cache_->update(layer, key, value);
  cache_->commit();
  key.fill_(7);
  value.fill_(7);
  cache_->begin({to_row({3})});
  const KeyValues kv = cache_->update(0, ones(), ones());
  const double rounding = cache_case().rounds() ? 0.05 : 0;
  EXPECT_NEAR(kv.keys.max().item<double>(), 1.0, rounding);
  EXPECT_NEAR(kv.values.max().item<double>(), 1.0, rounding);
}

TEST_P(CacheConformance, BytesCopiedAStepAreThoseOfTheFormula) {
  if (cache_case().copies_by_its_own_rule) return;  // its own test counts them
  const ModelShape shape = model_->shape();
  const auto element = static_cast<int64_t>(c10::elementSize(cache_case().dtype));
  for (const int64_t rows : {1, 3}) {
    for (const Chunks& sizes : {Chunks{3, 1, 1, 1, 1, 1}, {8}, {1, 3, 4}, {4, 1, 3}}) {
      const bool chunk_on_history = std::any_of(sizes.begin() + 1, sizes.end(), [](int64_t T) { return T > 1; });
      if (chunk_on_history && !takes_chunk_on_history()) continue;
      SCOPED_TRACE(fmt::format("{} rows, fed as {}", rows, sizes));
      const auto inner = fresh_cache();
      CopyCountingCache cache(*inner);
      in_chunks(model_, cache, some_ids(rows, 8), sizes);
      std::vector<int64_t> want;
      int64_t P = 0;
      for (const int64_t T : sizes) {
        want.push_back(cache_case().copied_bytes(shape, rows, P, T, element));
        P += T;
      }
      EXPECT_EQ(cache.copied(), want);
    }
  }
}

TEST_P(CacheConformance, ThreeRowsGiveWhatEachGivesAlone) {
  const torch::Tensor ids = some_ids(3, 5);
  const Generation together = generate(model_, *cache_, ids, {.new_tokens = 4});
  for (int64_t row = 0; row < 3; ++row) {
    cache_->reset();
    const Generation alone = generate(model_, *cache_, ids.narrow(0, row, 1), {.new_tokens = 4});
    EXPECT_EQ(to_ids(together.new_ids.narrow(0, row, 1)), to_ids(alone.new_ids)) << "row " << row;
  }
}

TEST_P(CacheConformance, GreedyTokensAreThoseOfTheFullRecompute) {
  const Checkpoint tiny = golden_checkpoint("tiny", cache_case().dtype);
  Gpt2 model = cache_case().make_model(tiny);
  const auto cache = cache_case().make_cache(tiny.config.shape());
  const torch::Tensor prompt = to_row({12, 80, 5, 33, 96, 2, 41});
  const torch::Tensor want = greedy_oracle(model, tiny, prompt, 58);
  for (const int64_t chunk : {7, 1, 2, 5}) {
    cache->reset();
    if (chunk != 7 && chunk != 1 && !takes_chunk_on_history()) continue;
    const Generation generation = generate(model, *cache, prompt, {.new_tokens = 58, .chunk = chunk});
    EXPECT_EQ(to_ids(generation.new_ids), to_ids(want)) << "smallest gap " << generation.min_margin;
    EXPECT_EQ(generation.finish_reason, FinishReason::kLength);
  }
}

TEST_P(CacheConformance, Case12EqualLogitsGiveTheLowestId) {
  Checkpoint flat = golden_checkpoint("nano", cache_case().dtype);
  flat.weights.at("wte.weight").zero_();  // every logit is 0
  Gpt2 model = cache_case().make_model(flat);
  EXPECT_EQ(to_ids(generate(model, *cache_, to_row({5, 6}), {.new_tokens = 3}).new_ids), std::vector<int64_t>(3, 0));
}

TEST_P(CacheConformance, Case25TheFirstTokenIsTimedAfterThePromptAndTheRestOneByOne) {
  RecordingCache recording(*cache_);
  const GenerateOptions options{// a clock that counts forwards
                                .new_tokens = 3,
                                .clock = [&] { return static_cast<double>(recording.query_tokens.size()); }};
  const Timings timings = generate(model_, recording, to_row({2, 14, 0, 4}), options).timings;
  EXPECT_EQ(timings.start, 0);
  EXPECT_EQ(timings.token_times, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(timings.prompt_tokens, 4);
}

TEST_P(CacheConformance, Case26ADecodeStepHasOneQueryToken) {
  RecordingCache recording(*cache_);
  generate(model_, recording, to_row({2, 14, 0, 4}), {.new_tokens = 4});
  EXPECT_EQ(recording.query_tokens, (std::vector<int64_t>{4, 1, 1, 1}));
}

struct Fault {
  int64_t held;  // committed tokens before
  int64_t T;     // tokens of the forward that fails
};

TEST_P(CacheConformance, Case41ARetryAfterAFaultEqualsTheRunWithoutIt) {
  for (const int64_t rows : {1, 3}) {
    const torch::Tensor ids = some_ids(rows, 8);
    const torch::Tensor want = oracle(ids);
    for (const Fault fault : {Fault{0, 1}, {0, 3}, {2, 1}, {2, 3}, {4, 1}, {4, 3}, {5, 1}, {5, 3}, {7, 1}}) {
      if (fault.held > 0 && fault.T > 1 && !takes_chunk_on_history()) continue;
      for (const bool told : {false, true}) {  // abandon() called, or left to the next begin
        SCOPED_TRACE(fmt::format("{} rows, {} held, {} fail, abandon called: {}", rows, fault.held, fault.T, told));
        cache_->reset();
        FailingCache failing(*cache_);
        if (fault.held > 0) in_chunks(model_, failing, ids.narrow(1, 0, fault.held), then_singles(1, fault.held));
        const int64_t bytes = failing.bytes();

        failing.arm();
        const torch::Tensor other = torch::full({rows, fault.T}, 11, torch::kInt64);  // leaves other keys behind
        EXPECT_THROW(model_->hidden({other}, failing), c10::Error);
        EXPECT_EQ(failing.length(), fault.held);
        if (told) {
          failing.abandon();
          EXPECT_EQ(failing.bytes(), bytes);
        }

        const int64_t rest = 8 - fault.held;
        const torch::Tensor got =
            in_chunks(model_, failing, ids.narrow(1, fault.held, rest), then_singles(std::min(fault.T, rest), rest));
        expect_close(got, want.narrow(1, fault.held, rest));
      }
    }
  }
}

TEST_P(CacheConformance, Case11ManyStepsInAThreadWithoutAGuardKeepNoGraphAndNoMemory) {
  const Checkpoint tiny = golden_checkpoint("tiny", cache_case().dtype);
  Gpt2 model = cache_case().make_model(tiny);
  for (torch::Tensor& parameter : model->parameters()) parameter.set_requires_grad(true);
  const auto cache = cache_case().make_cache(tiny.config.shape());
  const int64_t context = tiny.config.context;
  torch::Tensor last;
  std::vector<int64_t> growth_at_the_end;  // of each round through the context
  const auto many_steps = [&] {
    AllocationMeter meter;
    const AllocationMeter::Section everything(meter);
    for (int64_t step = 0; step < 1000; ++step) {
      if (cache->length() == context) cache->reset();
      last = model->logits(model->hidden({to_row({step % 97})}, *cache));
      if (cache->length() == context) growth_at_the_end.push_back(meter.growth());
    }
  };
  std::exception_ptr fault;  // an exception that leaves a thread ends the program
  std::thread worker([&] {
    try {
      many_steps();
    } catch (...) {
      fault = std::current_exception();
    }
  });
  worker.join();
  if (fault) std::rethrow_exception(fault);
  EXPECT_FALSE(last.requires_grad());
  EXPECT_EQ(last.grad_fn(), nullptr);
  ASSERT_EQ(growth_at_the_end.size(), 15U);
  for (const int64_t bytes : growth_at_the_end) EXPECT_EQ(bytes, growth_at_the_end.front());
}

INSTANTIATE_TEST_SUITE_P(EveryCache, CacheConformance, testing::ValuesIn(conformance_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kvbook

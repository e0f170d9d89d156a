// Chapter 10's own promises.
#include <gtest/gtest.h>

#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "chapters/10_layer_windows/layer_windows_cache.h"
#include "common/generate.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

/// The keys of both layers in one forward of numbered tokens.
std::vector<KeyValues> both_layers(KVCache& cache, int64_t T) {
  std::vector<KeyValues> given;
  const torch::Tensor keys = numbered_keys(cache.length(), T);
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  for (int64_t layer = 0; layer < 2; ++layer) {
    const KeyValues kv = cache.update(layer, keys, -keys);
    given.push_back({kv.keys.clone(), kv.values.clone(), kv.visible});
  }
  cache.commit();
  return given;
}

/// Which positions the last query of a layer's part sees.
Numbers last_sees(const KeyValues& kv) {
  Numbers seen;
  const Numbers numbers = numbers_of(kv.keys);
  for (size_t column = 0; column < numbers.size(); ++column) {
    if (!kv.visible.defined() || kv.visible[-1][static_cast<int64_t>(column)].item<bool>()) {
      seen.push_back(numbers[column]);
    }
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

Numbers up_to(int64_t last, int64_t first = 0) {
  Numbers positions;
  for (int64_t p = first; p <= last; ++p) positions.push_back(p);
  return positions;
}

TEST(LayerWindowsCache, Case40TheFullLayerSeesAllAndTheOtherItsWindowFromOneCounter) {
  for (const Numbers& windows : {Numbers{2, 0}, {0, 2}}) {
    for (const Numbers& sizes : {Numbers{1, 1, 1, 1, 1}, {3, 1, 1}, {5}, {2, 3}, {4, 1}}) {
      LayerWindowsCache cache(kSmallShape, windows);
      for (const int64_t T : sizes) {
        const int64_t last = cache.length() + T - 1;
        const std::vector<KeyValues> seen = both_layers(cache, T);
        EXPECT_EQ(cache.length(), last + 1);
        for (int64_t layer = 0; layer < 2; ++layer) {
          const int64_t first = windows[layer] == 0 ? 0 : std::max<int64_t>(0, last - windows[layer] + 1);
          EXPECT_EQ(last_sees(seen[layer]), up_to(last, first)) << "layer " << layer;
        }
      }
    }
  }
}

TEST(LayerWindowsCache, Case40TheLogitsAreThoseOfAMaskALayerHoweverTheyAreFed) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5});
  const int64_t full = checkpoint.config.context;
  for (const Numbers& windows : {Numbers{2, full}, {full, 2}}) {
    const torch::Tensor want = full_recompute(checkpoint, ids, windows);
    EXPECT_GT(max_abs_diff(want, full_recompute(checkpoint, ids, full)), 1e-3) << "the window hides something";
    for (const Numbers& sizes : {Numbers{1, 1, 1, 1, 1}, {3, 1, 1}, {5}, {2, 3}, {4, 1}}) {
      LayerWindowsCache cache(model->shape(), windows);
      EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes), want), 1e-9);
    }
  }
}

class GoldenLayers : public testing::TestWithParam<std::string> {};

TEST_P(GoldenLayers, Case40TokensAndLogitsAreThoseOfTheReference) {
  Gpt2 model(golden_checkpoint(GetParam()));
  for (const GoldenRun& run : golden_runs(GetParam(), "layers")) {
    LayerWindowsCache cache(model->shape(), run.windows);
    const Generation generation = generate(model, cache, to_row(run.prompt), {.new_tokens = run.new_tokens()});
    EXPECT_EQ(to_ids(generation.new_ids), run.new_ids()) << "smallest gap " << generation.min_margin;
    EXPECT_LE(max_abs_diff(generation.last_logits[0], torch::tensor(run.end_logits, torch::kFloat64)), 1.5e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(BothModels, GoldenLayers, testing::Values("nano", "tiny"),
                         [](const auto& info) { return info.param; });

TEST(LayerWindowsCache, EqualWindowsGiveChapter5sLogitsAndBytes) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  Gpt2 model(checkpoint);
  const torch::Tensor ids = to_row({12, 80, 5, 33, 96, 2, 41, 7, 7, 60});
  for (const int64_t W : {1, 3, 64}) {
    LayerWindowsCache cache(model->shape(), Numbers(3, W));
    SlidingWindowCache sliding(model->shape(), W);
    const Numbers sizes = {4, 1, 1, 3, 1};
    EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes), in_chunks(model, sliding, ids, sizes)), 1e-9);
    EXPECT_EQ(cache.bytes(), sliding.bytes());
  }
}

TEST(LayerWindowsCache, HoldsBytesForEachLayersOwnWindow) {
  for (const int64_t B : {1, 3}) {
    LayerWindowsCache cache(kSmallShape, {3, 0});
    EXPECT_EQ(cache.bytes(), 0);
    for (const int64_t T : {2, 1, 4, 1}) {
      forward_numbered(cache, T, B, torch::kFloat64);
      EXPECT_EQ(cache.bytes(), 2 * B * 2 * 4 * 8 * (3 + 8));  // 2·B·H·D·8·(W_0 + context)
    }
  }
}

TEST(LayerWindowsCache, LayersOfOneWindowShareAMaskAndOthersDoNot) {
  ModelShape shape = kSmallShape;
  shape.layers = 4;
  LayerWindowsCache cache(shape, {3, 0, 3, 8});  // 8 is the context: as full as 0
  EXPECT_EQ(cache.same_slots_as(0), 0);
  EXPECT_EQ(cache.same_slots_as(1), 1);
  EXPECT_EQ(cache.same_slots_as(2), 0);
  EXPECT_EQ(cache.same_slots_as(3), 1);
  cache.begin({torch::zeros({1, 5}, torch::kInt64)});
  std::vector<const void*> masks;
  const torch::Tensor key = numbered_keys(0, 5);
  for (int64_t layer = 0; layer < 4; ++layer) masks.push_back(cache.update(layer, key, key).visible.data_ptr());
  EXPECT_EQ(masks[0], masks[2]);
  EXPECT_EQ(masks[1], masks[3]);
  EXPECT_NE(masks[0], masks[1]);
}

TEST(LayerWindowsCache, GivesBackAnyNumberUntilItsSmallestWindowHasGoneRoundAndThenOne) {
  for (const Numbers& windows : {Numbers{5, 3}, {3, 5}, {3, 0}, {0, 3}}) {
    LayerWindowsCache cache(kSmallShape, windows);
    for (const int64_t want : {1, 2, 3, 1, 1, 1, 1, 1}) {
      forward_numbered(cache, 1);
      EXPECT_EQ(cache.can_give_back(), want) << cache.length() << " held";
    }
    cache.truncate(7);
    EXPECT_EQ(cache.can_give_back(), 0);  // the window of 3 has lost the key before
  }
}

TEST(LayerWindowsCache, AFullLayerForgetsNothingSoItTakesNoTokenPastTheContext) {
  LayerWindowsCache full(kSmallShape, {0, 2}), windowed(kSmallShape, {3, 2});
  forward_numbered(full, 8);
  forward_numbered(windowed, 8);
  EXPECT_THROW(full.begin({torch::zeros({1, 1}, torch::kInt64)}), c10::IndexError);
  EXPECT_EQ(full.length(), 8);
  EXPECT_NO_THROW(windowed.begin({torch::zeros({1, 1}, torch::kInt64)}));  // what stops GPT-2 is the model
}

TEST(LayerWindowsCache, NamesTheLayerThatIsNotThere) {
  const LayerWindowsCache cache(kSmallShape, {0, 2});
  EXPECT_THROW(cache.layer_slots(2), c10::IndexError);
  EXPECT_THROW(cache.layer_slots(0, 1), c10::IndexError);
  EXPECT_THROW(cache.layer_columns(-1), c10::IndexError);
  EXPECT_THROW(cache.same_slots_as(2), c10::IndexError);
}

TEST(LayerWindowsCache, AWindowAboveTheContextIsAFullLayer) {
  LayerWindowsCache cache(kSmallShape, {100, 0});
  forward_numbered(cache, 8);
  EXPECT_EQ(cache.bytes(), key_value_bytes(kSmallShape, 1, 8, 4));
}

TEST(LayerWindowsCache, RefusesANegativeWindowAndAnotherNumberOfThem) {
  EXPECT_THROW(LayerWindowsCache(kSmallShape, {3, -1}), c10::ValueError);
  EXPECT_THROW(LayerWindowsCache(kSmallShape, {3}), c10::ValueError);
  EXPECT_THROW(LayerWindowsCache(kSmallShape, {3, 3, 3}), c10::ValueError);
}

}  // namespace
}  // namespace kvbook

// Chapter 10's answers. Those that are caches also pass the conformance suite (conformance_test).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/05_sliding_window/answers/news.h"
#include "chapters/10_layer_windows/answers/growing_layer_windows_cache.h"
#include "chapters/10_layer_windows/answers/reach.h"
#include "chapters/10_layer_windows/answers/spare_layer_windows_cache.h"
#include "chapters/10_layer_windows/layer_windows_cache.h"
#include "common/generate.h"
#include "common/model_source.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

void feed_singles(KVCache& cache, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) forward_numbered(cache, 1);
}

// 10.1: how far news travels --------------------------------------------------------------------------------------

TEST(LastToHear, IsAWindowLessOneFurtherForEachLayerAndTheEndBehindAFullOne) {
  EXPECT_EQ(last_to_hear({1, 1}, 3, 8), 3);
  EXPECT_EQ(last_to_hear({2, 3}, 0, 8), 3);
  EXPECT_EQ(last_to_hear({3, 2}, 1, 8), 4);
  EXPECT_EQ(last_to_hear({3, 2}, 6, 8), 7);
  EXPECT_EQ(last_to_hear({1, 0}, 2, 8), 7);
  EXPECT_EQ(last_to_hear({0, 1}, 2, 8), 7);
  EXPECT_EQ(last_to_hear({3, 5, 2}, 10, 64), 17);
  EXPECT_THROW(last_to_hear({3, 5}, 8, 8), c10::ValueError);
  EXPECT_THROW(last_to_hear({3, -1}, 0, 8), c10::ValueError);
}

/// Every position from `position` up to the last that can hear of it moves, and no other one, by exactly 0.
void expect_news_up_to_the_bound(Gpt2& model, const torch::Tensor& ids, const Numbers& windows, int64_t position) {
  LayerWindowsCache cache(model->shape(), windows);
  const int64_t tokens = ids.size(1), last = last_to_hear(windows, position, tokens);
  const torch::Tensor moved = news_of_a_change(model, cache, ids, position, /*other=*/7);
  for (int64_t at = 0; at < tokens; ++at) {
    const double change = moved[at].item<double>();
    if (position <= at && at <= last) {
      EXPECT_GT(change, 1e-9) << fmt::format("windows {}, from {} to {}", windows, position, at);
    } else {
      EXPECT_EQ(change, 0) << fmt::format("windows {}, from {} to {}", windows, position, at);
    }
  }
}

// ANCHOR: news
TEST(News, TravelsThroughLayersOfAnyWindowsUpToTheBoundAndNoFurther) {
  Gpt2 nano(golden_checkpoint("nano"));  // 2 layers, context 8
  const torch::Tensor eight = to_row({3, 1, 4, 1, 5, 9, 2, 6});
  for (const Numbers& windows :
       {Numbers{1, 1}, {1, 4}, {4, 1}, {2, 3}, {3, 2}, {3, 3}, {2, 0}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}) {
    for (const int64_t position : {0, 1, 3, 7}) expect_news_up_to_the_bound(nano, eight, windows, position);
  }
  Gpt2 tiny(golden_checkpoint("tiny"));  // 3 layers, context 64
  torch::manual_seed(101);
  const torch::Tensor all = torch::randint(8, 97, {1, 64}, torch::kInt64);  // no 7
  for (const Numbers& windows :
       {Numbers{3, 5, 2}, {2, 5, 3}, {1, 1, 9}, {20, 1, 11}, {16, 16, 16}, {1, 0, 1}, {4, 4, 0}, {0, 7, 7}}) {
    for (const int64_t position : {0, 13, 40}) expect_news_up_to_the_bound(tiny, all, windows, position);
  }
}
// ANCHOR_END: news

// ANCHOR: name
/// The default tale as the small model tells it, and the same with another name where the first one stands. At the next
/// place where the name is told: how far the logits move, and the first choice in both.
std::string told_of_another_name(const NamedModel& tales, Gpt2& model, const Numbers& windows) {
  const Numbers prompt = default_prompt(tales);
  PreallocatedCache exact(model->shape(), model->shape().context);
  const Numbers answer = to_ids(generate(model, exact, to_row(prompt), {.new_tokens = 200}).new_ids);
  const int64_t name = tales.tokenizer->encode(" Max").front(), other = tales.tokenizer->encode(" Mia").front();
  const auto asked = std::find(answer.begin(), answer.end(), name);  // the token before it chooses it
  Numbers told = prompt;
  told.insert(told.end(), answer.begin(), asked);
  const auto first = std::find(prompt.begin(), prompt.end(), name) - prompt.begin();

  LayerWindowsCache cache(model->shape(), windows);
  const torch::Tensor moved = news_of_a_change(model, cache, to_row(told), first, other);
  const auto choice = [&](const Numbers& ids) {
    cache.reset();
    const torch::Tensor logits = model->logits(model->hidden({to_row(ids)}, cache).select(1, -1));
    return tales.tokenizer->decode({logits.argmax().item<int64_t>()});
  };
  Numbers changed = told;
  changed[first] = other;
  return fmt::format("{} tokens on: {:.3f},{} and{}", told.size() - first, moved[-1].item<double>(), choice(told),
                     choice(changed));
}

TEST(News, OfTheNameIsUsedWhereLayers2And3SeeItThemselves) {
  const NamedModel tales = open_model("tales", torch::kFloat64);
  Gpt2 model(tales.checkpoint);
  EXPECT_EQ(told_of_another_name(tales, model, {0, 0, 0, 0}), "144 tokens on: 16.629, Max and Mia");
  EXPECT_EQ(told_of_another_name(tales, model, {64, 64, 0, 0}), "144 tokens on: 16.094, Max and Mia");
  EXPECT_EQ(told_of_another_name(tales, model, {0, 0, 64, 64}), "144 tokens on: 0.176, Jack and Jack");
  EXPECT_EQ(told_of_another_name(tales, model, {64, 64, 64, 64}), "144 tokens on: 0.005, Finn and Finn");
}
// ANCHOR_END: name

// 10.2: slots to spare --------------------------------------------------------------------------------------------

// ANCHOR: spare
TEST(SpareLayerWindowsCache, GivesBackOneTokenMoreThanItHasSlotsToSpareOnceEveryWindowHasGoneRound) {
  for (const Numbers& windows : {Numbers{3, 2}, {2, 3}, {3, 0}, {0, 3}}) {
    for (const int64_t spare : {0, 1, 2, 3}) {
      SpareLayerWindowsCache cache(kSmallShape, windows, spare);
      for (int64_t held = 1; held <= 8; ++held) {
        feed_singles(cache, 1);
        const int64_t smallest = windows == Numbers{3, 2} || windows == Numbers{2, 3} ? 2 : 3;
        const int64_t most = held <= smallest + spare ? held : spare + 1;
        EXPECT_EQ(cache.can_give_back(), most) << fmt::format("{}, k = {}, {} held", windows, spare, held);
      }
      cache.truncate(8 - spare - 1);
      EXPECT_EQ(cache.can_give_back(), 0);
    }
  }
}
// ANCHOR_END: spare

TEST(SpareLayerWindowsCache, WithFullLayersOnlyGivesEverythingBack) {
  SpareLayerWindowsCache cache(kSmallShape, {0, 0}, /*spare=*/2);
  feed_singles(cache, 8);
  EXPECT_EQ(cache.can_give_back(), 8);
}

// ANCHOR: spare_bytes
TEST(SpareLayerWindowsCache, HoldsSoManySlotsMoreInWindowedLayersAndNoneInFullOnes) {
  const int64_t B = 3, H = 2, D = 4, k = 2;
  for (const Numbers& windows : {Numbers{3, 0}, {0, 3}}) {
    SpareLayerWindowsCache cache(kSmallShape, windows, k);
    for (const int64_t T : {2, 1, 4, 1}) {
      forward_numbered(cache, T, B, torch::kFloat64);
      EXPECT_EQ(cache.bytes(), 2 * B * H * D * 8 * ((3 + k) + 8));  // W + k, and the context
    }
  }
}
// ANCHOR_END: spare_bytes

// ANCHOR: spare_mask
TEST(SpareLayerWindowsCache, ASingleTokenNeedsAMaskInWindowedLayersOnceMoreThanAWindowIsHeld) {
  SpareLayerWindowsCache cache(kSmallShape, {3, 0}, /*spare=*/2);
  for (int64_t P = 0; P < 8; ++P) {
    cache.begin({torch::zeros({1, 1}, torch::kInt64)});
    const torch::Tensor key = numbered_keys(P, 1);
    const torch::Tensor windowed = cache.update(0, key, key).visible;
    const torch::Tensor full = cache.update(1, key, key).visible;
    cache.commit();
    EXPECT_FALSE(full.defined()) << "P = " << P;
    ASSERT_EQ(windowed.defined(), P >= 3) << "P = " << P;  // P + 1 tokens, of which it sees 3
    if (P < 3) continue;
    EXPECT_EQ(windowed.sum().item<int64_t>(), 3) << "P = " << P;
  }
}
// ANCHOR_END: spare_mask

TEST(SpareLayerWindowsCache, EveryDraftThatCanBeTakenBackLeavesTheLogitsOfTheMaskALayer) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  Gpt2 model(checkpoint);
  torch::manual_seed(102);
  const torch::Tensor ids = torch::randint(97, {2, 24}, torch::kInt64),
                      wrong = torch::randint(97, {2, 5}, torch::kInt64);
  for (const Numbers& windows : {Numbers{3, 0, 5}, {0, 4, 2}, {2, 6, 3}}) {
    Numbers sees = windows;
    for (int64_t& W : sees) W = W == 0 ? 64 : W;
    const torch::Tensor want = full_recompute(checkpoint, ids, sees);
    for (int64_t k = 0; k <= 3; ++k) {
      SpareLayerWindowsCache cache(model->shape(), windows, k);
      const torch::Tensor first = in_chunks(model, cache, ids.narrow(1, 0, 16), {13, 1, 1, 1});
      in_chunks(model, cache, wrong.narrow(1, 0, k + 1), {k + 1});
      EXPECT_THROW(cache.truncate(15), c10::IndexError);
      cache.truncate(16);
      const torch::Tensor rest = in_chunks(model, cache, ids.narrow(1, 16, 8), {1, 2, 1, 4});
      EXPECT_LE(max_abs_diff(torch::cat({first, rest}, 1), want), 1e-9) << fmt::format("{}, k = {}", windows, k);
    }
  }
}

TEST(SpareLayerWindowsCache, RefusesWhatTheChapterRefuses) {
  EXPECT_THROW(SpareLayerWindowsCache(kSmallShape, {3, -1}, 1), c10::ValueError);
  EXPECT_THROW(SpareLayerWindowsCache(kSmallShape, {3}, 1), c10::ValueError);
  EXPECT_THROW(SpareLayerWindowsCache(kSmallShape, {0, 0}, -1), c10::ValueError);
  SpareLayerWindowsCache cache(kSmallShape, {3, 0}, 1);
  feed_singles(cache, 8);
  EXPECT_THROW(cache.begin({torch::zeros({1, 1}, torch::kInt64)}), c10::IndexError);
  EXPECT_THROW(cache.layer_slots(2), c10::IndexError);
}

// 10.3: full layers that grow -------------------------------------------------------------------------------------

// ANCHOR: growing_bytes
TEST(GrowingLayerWindowsCache, HoldsItsWindowsAndTheDoubledSlotsOfItsFullLayers) {
  const int64_t B = 3, H = 2, D = 4, W = 3;
  const Numbers from_2 = {2, 2, 4, 4, 8, 8, 8, 8}, from_3 = {3, 3, 3, 6, 6, 6, 8, 8};  // 8: the context
  for (const auto& [first, slots] : {std::pair(2, from_2), {3, from_3}}) {
    for (const Numbers& windows : {Numbers{W, 0}, {0, W}}) {
      GrowingLayerWindowsCache cache(kSmallShape, windows, first);
      for (int64_t n = 1; n <= 8; ++n) {
        forward_numbered(cache, 1, B, torch::kFloat64);
        EXPECT_EQ(cache.bytes(), 2 * B * H * D * 8 * (W + slots[n - 1])) << n << " tokens, from " << first;
      }
    }
  }
}
// ANCHOR_END: growing_bytes

// ANCHOR: growing_buffers
TEST(GrowingLayerWindowsCache, ReplacesAFullLayersBufferWhenItIsFullAndAWindowedOneNever) {
  GrowingLayerWindowsCache cache(kSmallShape, {3, 0}, /*first=*/2);
  const void *windowed = nullptr, *full = nullptr;
  Numbers replaced;  // the lengths at which the full layer got another buffer
  for (int64_t P = 0; P < 8; ++P) {
    cache.begin({torch::zeros({1, 1}, torch::kInt64)});
    const torch::Tensor key = numbered_keys(P, 1);
    const void* here = cache.update(0, key, key).keys.data_ptr();
    const void* there = cache.update(1, key, key).keys.data_ptr();
    cache.commit();
    if (P > 0) {
      EXPECT_EQ(here, windowed) << "P = " << P;
      if (there != full) replaced.push_back(P);
    }
    windowed = here;
    full = there;
  }
  EXPECT_EQ(replaced, (Numbers{2, 4}));
}
// ANCHOR_END: growing_buffers

// ANCHOR: growing_retry
TEST(GrowingLayerWindowsCache, AForwardGivenUpBehindAnyLayerIsAsIfItHadNotGrown) {
  const Checkpoint checkpoint = golden_checkpoint("tiny");
  Gpt2 model(checkpoint);
  const ModelShape shape = model->shape();
  const torch::Tensor ids = to_row({12, 80, 5, 33, 96, 2, 41, 7, 7, 60, 3, 19});
  const torch::Tensor want = full_recompute(checkpoint, ids, Numbers{64, 3, 64});
  for (int64_t last = 0; last < 3; ++last) {
    GrowingLayerWindowsCache cache(shape, {0, 3, 0}, /*first=*/2);
    const torch::Tensor first = in_chunks(model, cache, ids.narrow(1, 0, 4), {4});
    const int64_t bytes = cache.bytes();
    for (const int64_t T : {1, 5}) {
      cache.begin({ids.narrow(1, 0, T)});
      const torch::Tensor bad = torch::full({1, shape.kv_heads, T, shape.head_size}, 1e4, torch::kFloat64);
      for (int64_t layer = 0; layer <= last; ++layer) cache.update(layer, bad, bad);
      EXPECT_GT(cache.bytes(), bytes) << "it has not grown";
      cache.abandon();
      EXPECT_EQ(cache.bytes(), bytes);
    }
    const torch::Tensor rest = in_chunks(model, cache, ids.narrow(1, 4, 8), {1, 3, 4});
    EXPECT_LE(max_abs_diff(torch::cat({first, rest}, 1), want), 1e-9) << "given up behind layer " << last;
  }
}
// ANCHOR_END: growing_retry

TEST(GrowingLayerWindowsCache, NamesAsManySlotsAsThereAre) {
  GrowingLayerWindowsCache cache(kSmallShape, {3, 0}, /*first=*/2);
  EXPECT_TRUE(cache.layer_slots(1).empty());
  feed_singles(cache, 3);
  EXPECT_EQ(cache.layer_slots(0), (Numbers{0, 1, 2}));
  EXPECT_EQ(cache.layer_slots(1), (Numbers{0, 1, 2, kEmptySlot}));
  EXPECT_EQ(cache.same_slots_as(1), 1);
}

TEST(GrowingLayerWindowsCache, RefusesWhatTheChapterRefuses) {
  EXPECT_THROW(GrowingLayerWindowsCache(kSmallShape, {3, -1}, 2), c10::ValueError);
  EXPECT_THROW(GrowingLayerWindowsCache(kSmallShape, {3, 0}, 0), c10::ValueError);
  GrowingLayerWindowsCache cache(kSmallShape, {3, 0}, 2);
  feed_singles(cache, 8);
  EXPECT_THROW(cache.begin({torch::zeros({1, 1}, torch::kInt64)}), c10::IndexError);
  EXPECT_EQ(cache.length(), 8);
}

}  // namespace
}  // namespace kvbook

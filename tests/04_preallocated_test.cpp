// Chapter 4's own promises.
#include <gtest/gtest.h>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "common/generate.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

TEST(PreallocatedCache, WritesInPlaceAndReturnsViews) {
  PreallocatedCache cache(kSmallShape, 6);
  const Given first = forward_numbered(cache, 2);
  const Given second = forward_numbered(cache, 3);
  EXPECT_EQ(numbers_of(second.keys), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(second.keys_address, first.keys_address);  // nothing was copied to a new place
  EXPECT_EQ(second.values_address, first.values_address);
  EXPECT_EQ(forward_numbered(cache, 1).keys_address, first.keys_address);
}

TEST(PreallocatedCache, HasASlotForAllOfItsCapacityOnceItIsMade) {
  PreallocatedCache cache(kSmallShape, 5);
  EXPECT_EQ(cache.slots(), Numbers{});
  forward_numbered(cache, 3);
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 2, kEmptySlot, kEmptySlot}));
}

TEST(TensorAssignment, WritesThroughATemporaryAndRebindsAName) {
  const torch::Tensor buffer = torch::zeros({2, 3}), ones = torch::ones({3});
  buffer[0] = ones;
  EXPECT_TRUE(buffer[0].equal(ones));
  torch::Tensor slot = buffer[1];
  slot = ones;
  EXPECT_TRUE(buffer[1].equal(torch::zeros({3})));
  slot = buffer[1];
  slot.copy_(ones);
  EXPECT_TRUE(buffer[1].equal(ones));

  const torch::Tensor slots = torch::zeros({1, 5, 2});  // a layer of five slots
  slots[0] = torch::ones({1, 2});                       // one token's key
  EXPECT_TRUE(slots.equal(torch::ones({1, 5, 2})));     // is in all of them
}

TEST(PreallocatedCache, RefusesATokenTooManyBeforeAnythingIsWritten) {
  PreallocatedCache cache(kSmallShape, 4);
  forward_numbered(cache, 3);
  try {
    cache.begin({torch::zeros({1, 2}, torch::kInt64)});
    ADD_FAILURE() << "5 tokens were taken by 4 slots";
  } catch (const c10::IndexError& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("3 of 4"), std::string::npos);
  }
  EXPECT_EQ(cache.length(), 3);
  EXPECT_EQ(numbers_of(forward_numbered(cache, 1).keys), (Numbers{0, 1, 2, 3}));
}

TEST(PreallocatedCache, RefusesACapacityOfNothing) {
  EXPECT_THROW(PreallocatedCache(kSmallShape, 0), c10::ValueError);
  EXPECT_THROW(PreallocatedCache(kSmallShape, -3), c10::ValueError);
}

TEST(PreallocatedCache, HoldsBytesByTheFormulaForAllOfItsCapacity) {
  for (const int64_t B : {1, 3}) {
    PreallocatedCache cache(kSmallShape, 6);
    EXPECT_EQ(cache.bytes(), 0);
    forward_numbered(cache, 1, B, torch::kFloat64);
    EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 6 * 4 * 8);  // 2·L·B·H·C·D·8
    forward_numbered(cache, 3, B, torch::kFloat64);
    EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * 6 * 4 * 8);
  }
}

TEST(PreallocatedCache, Case03WhatLiesInUnwrittenSlotsGetsNoWeight) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  const torch::Tensor ids = to_row({3, 1, 4, 1, 5});
  const torch::Tensor want = full_recompute(checkpoint, ids, 8);
  for (const int64_t capacity : {5, 8}) {
    for (const double poison : {1e4, std::numeric_limits<double>::quiet_NaN()}) {
      PreallocatedCache inner(model->shape(), capacity);
      RecordingCache cache(inner);
      const torch::Tensor first = model->logits(model->hidden({ids.narrow(1, 0, 1)}, cache));
      // The whole buffers, reached through the view that an update returns: fill every slot after the first.
      inner.begin({ids.narrow(1, 1, 1)});
      const ModelShape shape = model->shape();
      const torch::Tensor key = torch::zeros({1, shape.kv_heads, 1, shape.head_size}, torch::kFloat64);
      const KeyValues kv = inner.update(0, key, key);
      for (const torch::Tensor& view : {kv.keys, kv.values}) {
        torch::Tensor buffer = torch::empty({0}, torch::kFloat64).set_(view.storage());
        buffer = buffer.view({shape.layers, 1, shape.kv_heads, capacity, shape.head_size});
        buffer.narrow(3, 1, capacity - 1).fill_(poison);
      }
      inner.abandon();
      const torch::Tensor rest = in_chunks(model, inner, ids.narrow(1, 1, 4), {1, 3});
      EXPECT_LE(max_abs_diff(torch::cat({first, rest}, 1), want), 1e-9) << "capacity " << capacity;
    }
  }
}

TEST(PreallocatedCache, GeneratesUpToItsCapacityAndNoFurther) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  Gpt2 model(checkpoint);
  PreallocatedCache cache(model->shape(), 5);
  const torch::Tensor prompt = to_row({2, 14, 0, 4});
  EXPECT_EQ(generate(model, cache, prompt, {.new_tokens = 2}).new_ids.size(1), 2);  // 4 + 2 - 1 = 5 slots
  cache.reset();
  EXPECT_THROW(generate(model, cache, prompt, {.new_tokens = 3}), c10::IndexError);
}

}  // namespace
}  // namespace kvbook

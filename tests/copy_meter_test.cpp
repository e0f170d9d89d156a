// The meter that counts what a cache copies, on operators whose bytes are written down here.
#include "tests/support/copy_meter.h"

#include <gtest/gtest.h>

#include <thread>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

/// What `work` copies.
template <typename Work>
int64_t copied(Work work) {
  const CopyMeter meter;
  work();
  return meter.bytes();
}

TEST(CopyMeter, CountsEveryWayOfCopyingOnce) {
  const torch::Tensor twelve = torch::zeros({3, 4}), eight = torch::ones({2, 4});  // 48 and 32 bytes
  const torch::Tensor rows = torch::tensor({2, 0}, torch::kInt64);
  EXPECT_EQ(copied([&] { twelve.narrow(0, 1, 2).copy_(eight); }), 32);
  EXPECT_EQ(copied([&] { twelve.clone(); }), 48);
  EXPECT_EQ(copied([&] { twelve.t().contiguous(); }), 48);
  EXPECT_EQ(copied([&] { twelve.to(torch::kFloat64); }), 96);
  EXPECT_EQ(copied([&] { torch::cat({twelve, eight}); }), 80);
  EXPECT_EQ(copied([&] { torch::cat({twelve.t(), eight.t()}, 1); }), 80);
  EXPECT_EQ(copied([&] { twelve.index_copy_(0, rows, eight); }), 32);
  EXPECT_EQ(copied([&] { twelve.index_put_({rows}, eight); }), 32);
}

TEST(CopyMeter, CountsNoViewNoAllocationAndNoArithmetic) {
  const torch::Tensor twelve = torch::zeros({3, 4});
  EXPECT_EQ(copied([&] { twelve.narrow(0, 1, 2).t(); }), 0);
  EXPECT_EQ(copied([&] { twelve.contiguous(); }), 0);  // it is
  EXPECT_EQ(copied([&] { torch::empty({3, 4}) + twelve; }), 0);
}

TEST(CopyMeter, CountsWhileItLivesOnItsOwnThreadAlsoInsideAnother) {
  const torch::Tensor twelve = torch::zeros({3, 4});
  const CopyMeter outer;
  EXPECT_EQ(copied([&] { twelve.clone(); }), 48);
  EXPECT_EQ(outer.bytes(), 48);
  std::thread([&] { twelve.clone(); }).join();
  EXPECT_EQ(outer.bytes(), 48);
  twelve.clone();
  EXPECT_EQ(outer.bytes(), 96);
}

TEST(CopyCountingCache, NotesAForwardEachAndForgetsAnAbandonedOne) {
  PreallocatedCache inner(kSmallShape, 8);
  CopyCountingCache cache(inner);
  forward_numbered(cache, 3);
  cache.begin({torch::zeros({1, 2}, torch::kInt64)});
  cache.update(0, numbered_keys(3, 2), numbered_keys(3, 2));
  cache.abandon();
  forward_numbered(cache, 1);
  // 2 layers, keys and values, 2 heads of 4 float32 numbers: 128 bytes a token.
  EXPECT_EQ(cache.copied(), (std::vector<int64_t>{3 * 128, 128}));
}

}  // namespace
}  // namespace kvbook

// What is counted of LibTorch's operators, on some whose bytes are written down here.
#include "tests/support/operation_counter.h"

#include <gtest/gtest.h>

#include <thread>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/support/copy_counting_cache.h"
#include "tests/support/small_forward.h"

namespace kvbook {
namespace {

/// What `work` copies.
template <typename Work>
int64_t copied(Work work) {
  const OperationCounter counter;
  work();
  return counter.bytes_copied;
}

TEST(OperationCounter, CountsEveryWayOfCopyingOnce) {
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
  EXPECT_EQ(copied([&] { twelve.index_select(0, rows); }), 32);
  EXPECT_EQ(copied([&] { twelve.gather(0, torch::zeros({1, 4}, torch::kInt64)); }), 16);
}

TEST(OperationCounter, CountsNoViewNoAllocationAndNoArithmetic) {
  const torch::Tensor twelve = torch::zeros({3, 4});
  EXPECT_EQ(copied([&] { twelve.narrow(0, 1, 2).t(); }), 0);
  EXPECT_EQ(copied([&] { twelve.contiguous(); }), 0);  // it is
  EXPECT_EQ(copied([&] { torch::empty({3, 4}) + twelve; }), 0);
}

TEST(OperationCounter, CountsOnItsOwnThreadOnly) {
  const torch::Tensor twelve = torch::zeros({3, 4});
  const OperationCounter counter;
  std::thread([&] { twelve.clone(); }).join();
  EXPECT_EQ(counter.bytes_copied, 0);
  twelve.clone();
  EXPECT_EQ(counter.bytes_copied, 48);
}

TEST(OperationCounter, CountsTheMultiplyAddsOfProductsAndOfFusedAttention) {
  const torch::Tensor a = torch::ones({2, 3}), b = torch::ones({3, 5}), x = torch::ones({1, 2, 4, 6});
  const OperationCounter counter;
  at::matmul(a, b);
  EXPECT_EQ(counter.multiply_adds, 2 * 3 * 5);
  at::scaled_dot_product_attention(x, x, x);  // 2 heads, 4 queries, 4 keys, size 6: scores and sums
  EXPECT_EQ(counter.multiply_adds, 2 * 3 * 5 + 2 * 2 * 4 * 4 * 6);
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

// The shared attention, against numbers worked out by hand and against the plain formula.
#include "common/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tensors.h"

namespace kvbook {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

torch::Tensor random_heads(int64_t T) { return torch::randn({2, 3, T, 4}, torch::kFloat64); }

TEST(Attend, WeighsTwoValuesAsTheSoftmaxOfTheScoresSays) {
  // D = 1: scores 1·0 and 1·ln 3, so the weights are 1/4 and 3/4: 10·1/4 + 20·3/4 = 17.5.
  const auto one = [](std::vector<double> numbers) {
    return torch::tensor(numbers, torch::kFloat64).view({1, 1, -1, 1});
  };
  const torch::Tensor mixed = attend(one({1}), {one({0, std::log(3.0)}), one({10, 20}), {}});
  EXPECT_NEAR(mixed.item<double>(), 17.5, 1e-12);
}

TEST(Attend, DividesTheScoresByTheRootOfTheHeadSize) {
  // D = 4: q·k = 2·ln 3, over √4 that is ln 3 again.
  const torch::Tensor query = torch::ones({1, 1, 1, 4}, torch::kFloat64);
  torch::Tensor keys = torch::zeros({1, 1, 2, 4}, torch::kFloat64);
  keys[0][0][1] = std::log(3.0) / 2;
  torch::Tensor values = torch::zeros({1, 1, 2, 4}, torch::kFloat64);
  values[0][0][0] = 10;
  values[0][0][1] = 20;
  EXPECT_LE(max_abs_diff(attend(query, {keys, values, {}}), torch::full({1, 1, 1, 4}, 17.5)), 1e-12);
}

TEST(Attend, FollowsTheMaskOfEachRow) {
  const torch::Tensor query = random_heads(3), keys = random_heads(5), values = random_heads(5);
  const torch::Tensor visible = torch::rand({2, 1, 3, 5}) > 0.4;
  torch::Tensor scores = at::matmul(query, keys.transpose(2, 3)) / 2.0;
  scores = scores.masked_fill(visible.logical_not(), -1e300);
  torch::Tensor want = at::matmul(scores.softmax(-1), values);
  want = want.masked_fill(visible.any(-1, /*keepdim=*/true).logical_not(), 0);
  EXPECT_LE(max_abs_diff(attend(query, {keys, values, visible}), want), 1e-12);
}

TEST(Attend, Case29AFullyHiddenRowGivesZeros) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    torch::Tensor visible = torch::ones({3, 5}, torch::kBool);
    visible[1].fill_(false);
    const KeyValues kv = {random_heads(5).to(dtype), random_heads(5).to(dtype), visible};
    const torch::Tensor mixed = attend(random_heads(3).to(dtype), kv);
    EXPECT_EQ(mixed.select(2, 1).abs().max().item<double>(), 0.0);
    EXPECT_TRUE(mixed.isfinite().all().item<bool>());
  }
}

TEST(Attend, Case29NaNInAKeyOrValueThatNoQuerySeesCannotLeak) {
  torch::Tensor keys = random_heads(5), values = random_heads(5);
  const torch::Tensor query = random_heads(3);
  torch::Tensor visible = torch::ones({3, 5}, torch::kBool);
  visible.select(1, 2).fill_(false);
  const torch::Tensor want = attend(query, {keys, values, visible});
  keys.select(2, 2).fill_(kNaN);
  values.select(2, 2).fill_(kNaN);
  EXPECT_EQ(max_abs_diff(attend(query, {keys, values, visible}), want), 0.0);
}

TEST(Attend, RefusesKeysOfAnotherShapeThanTheQuery) {
  EXPECT_THROW(attend(random_heads(3), {random_heads(5).narrow(1, 0, 2), random_heads(5), {}}), c10::ValueError);
  EXPECT_THROW(attend(random_heads(3), {random_heads(5), random_heads(4), {}}), c10::ValueError);
  EXPECT_THROW(attend(torch::ones({3, 4}), {random_heads(5), random_heads(5), {}}), c10::ValueError);
}

}  // namespace
}  // namespace kvbook

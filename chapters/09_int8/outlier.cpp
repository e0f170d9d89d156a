#include "chapters/09_int8/outlier.h"

#include <cmath>

#include "chapters/09_int8/quantize.h"

namespace kvbook {

// ANCHOR: outlier
OutlierErrors outlier_errors() {
  constexpr int64_t kKeys = 16, kSize = 64, kQueries = 256;
  torch::manual_seed(38);
  torch::Tensor keys = 0.6 * torch::rand({kKeys, kSize}, torch::kFloat64) - 0.3;
  keys.select(1, 0).fill_(100);
  const torch::Tensor values = torch::randn({kKeys, kSize}, torch::kFloat64);
  const torch::Tensor queries = 3 * torch::randn({kQueries, kSize}, torch::kFloat64);
  const auto weights = [&](const torch::Tensor& k) {
    return (at::matmul(queries, k.t()) / std::sqrt(static_cast<double>(kSize))).softmax(-1);
  };
  const auto share = [](const torch::Tensor& a, const torch::Tensor& b) {  // of the length, a row each
    return ((a - b).norm(2, -1) / b.norm(2, -1)).mean().item<double>();
  };
  OutlierErrors errors;
  const auto compare = [&](int64_t dim, double& of_keys, double& of_weights, double& of_output) {
    const torch::Tensor scales = scales_of(keys, dim);
    const torch::Tensor back = dequantize(quantize(keys, scales), scales, torch::kFloat64);
    of_keys = share(back, keys);
    of_weights = (weights(back) - weights(keys)).abs().sum(-1).mean().item<double>();
    of_output = share(at::matmul(weights(back), values), at::matmul(weights(keys), values));
  };
  compare(1, errors.keys_a_token, errors.weights_a_token, errors.output_a_token);        // over a token's channels
  compare(0, errors.keys_a_channel, errors.weights_a_channel, errors.output_a_channel);  // over a channel's tokens
  const torch::Tensor scales = scales_of(keys, 1);
  errors.greatest_weight_a_token =
      weights(dequantize(quantize(keys, scales), scales, torch::kFloat64)).max().item<double>();
  return errors;
}
// ANCHOR_END: outlier

}  // namespace kvbook

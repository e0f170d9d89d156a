// One channel that is far greater than the others, and what each kind of scale makes of it.
#pragma once

namespace kvbook {

// ANCHOR: contract
/// Means over 256 queries: of all errors of the attention weights together, whose sum is 1; and of the error of the
/// attention's output and of the keys, as a share of their length (root of the sum of squares).
struct OutlierErrors {
  double keys_a_token = 0, keys_a_channel = 0;
  double weights_a_token = 0, weights_a_channel = 0;
  double output_a_token = 0, output_a_channel = 0;
  double greatest_weight_a_token = 0;  // 1/16 where attention cannot tell the keys apart
};

/// 16 keys with D = 64. Channel 0 is 100 in each of them, all others are drawn from ±0.3: less than half a step of a
/// scale a token, 100 / 127 = 0.79. Queries 3·N(0, 1), values N(0, 1), which are not rounded. float64.
/// Seeds LibTorch's generator.
OutlierErrors outlier_errors();
// ANCHOR_END: contract

}  // namespace kvbook

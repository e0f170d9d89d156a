// Numbers in 8 bits: a code from -127 to 127, and a scale that turns it back.
#pragma once

#include <torch/types.h>

namespace kvbook {

// ANCHOR: contract
/// The scale of all numbers along `dim`: the greatest of them is code 127, and nothing is cut off, as long as the scale
/// fits float32, in which it comes, with `dim` kept at size 1. Zeros have the scale 0.
torch::Tensor scales_of(const torch::Tensor& numbers, int64_t dim);

/// int8, of the shape of `numbers`: the nearest code, at most 127 on either side, halves to the even one. A scale of 0
/// gives code 0. Within ±127·scale a number comes back with an error of at most scale / 2 (and rounding).
torch::Tensor quantize(const torch::Tensor& numbers, const torch::Tensor& scales);

/// codes · scales, as `dtype`.
torch::Tensor dequantize(const torch::Tensor& codes, const torch::Tensor& scales, torch::ScalarType dtype);
// ANCHOR_END: contract

}  // namespace kvbook

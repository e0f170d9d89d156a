// Exercise 3.1: the mask as numbers that are added to the scores.
#pragma once

#include <torch/types.h>

namespace kvbook {

// ANCHOR: contract
/// 0 where `visible` is true and minus infinity where it is false: added to a score, exp makes a weight of 0 of it.
/// Any bool shape; the result has `dtype`, which must be the query's.
torch::Tensor float_mask(const torch::Tensor& visible, torch::ScalarType dtype);
// ANCHOR_END: contract

}  // namespace kvbook

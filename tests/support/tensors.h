// Compares tensors.
#pragma once

#include <torch/types.h>

#include "common/ids.h"

namespace kvbook {

/// The greatest difference in absolute value, in float64; NaN if either side holds one, and EXPECT_LE fails then.
/// Shapes must be equal.
double max_abs_diff(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace kvbook

// Small helpers to write tensors down and compare them.
#pragma once

#include <torch/types.h>

#include <vector>

namespace kvbook {

/// One row of ids: int64 [1, T].
torch::Tensor row_of(const std::vector<int64_t>& ids);

/// Row 0 of ids [B, n] as a vector.
std::vector<int64_t> to_vector(const torch::Tensor& ids);

/// The greatest difference in absolute value, in float64; NaN if either side holds one, and EXPECT_LE fails then.
/// Shapes must be equal.
double max_abs_diff(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace kvbook

// Between a list of ids and the tensors that the model takes.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kvbook {

/// One row: int64 [1, T].
torch::Tensor to_row(const std::vector<int64_t>& ids);

/// The row of a batch of one, int64 [1, T].
std::vector<int64_t> to_ids(const torch::Tensor& row);

/// "15496, 11, 314".
std::string joined(const std::vector<int64_t>& ids);

}  // namespace kvbook

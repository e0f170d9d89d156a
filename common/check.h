// Checks at public entries: a wrong shape says what was expected and what came.
#pragma once

#include <torch/types.h>

namespace kvbook {

/// @throws c10::ValueError "NAME has shape [..], expected [..]" unless the tensor has exactly this shape.
void check_shape(const torch::Tensor& tensor, torch::IntArrayRef expected, const char* name);

}  // namespace kvbook

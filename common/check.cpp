#include "common/check.h"

namespace kvbook {

void check_shape(const torch::Tensor& tensor, torch::IntArrayRef expected, const char* name) {
  TORCH_CHECK_VALUE(tensor.defined(), name, " is undefined, expected shape ", expected);
  TORCH_CHECK_VALUE(tensor.sizes() == expected, name, " has shape ", tensor.sizes(), ", expected ", expected);
}

}  // namespace kvbook

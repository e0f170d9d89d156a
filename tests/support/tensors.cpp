#include "tests/support/tensors.h"

namespace kvbook {

double max_abs_diff(const torch::Tensor& a, const torch::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "shapes differ: ", a.sizes(), " and ", b.sizes());
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

}  // namespace kvbook

#include "chapters/03_masked_offsets/answers/float_mask.h"

#include <limits>

namespace kvbook {

// ANCHOR: float_mask
torch::Tensor float_mask(const torch::Tensor& visible, torch::ScalarType dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  return torch::zeros(visible.sizes(), visible.options().dtype(dtype)).masked_fill(visible.logical_not(), -infinity);
}
// ANCHOR_END: float_mask

}  // namespace kvbook

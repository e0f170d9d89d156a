#include "chapters/03_masked_offsets/causal_mask.h"

namespace kvbook {

// ANCHOR: causal_mask
torch::Tensor causal_mask(int64_t P, int64_t T, torch::Device device) {
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const torch::Tensor query_position = torch::arange(P, P + T, integers).unsqueeze(1);  // [T, 1]
  const torch::Tensor key_position = torch::arange(P + T, integers).unsqueeze(0);       // [1, S]
  return key_position <= query_position;                                                // [T, S]
}
// ANCHOR_END: causal_mask

}  // namespace kvbook

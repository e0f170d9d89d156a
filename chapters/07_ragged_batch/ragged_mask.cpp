#include "chapters/07_ragged_batch/ragged_mask.h"

#include <algorithm>

namespace kvbook {

// ANCHOR: mask
torch::Tensor ragged_mask(const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts, int64_t T,
                          bool pad_left, torch::Device device) {
  const auto B = static_cast<int64_t>(lengths.size());
  int64_t S = 0;
  bool all_seen = T == 1;
  std::vector<int64_t> positions(B * T, -1);  // of the queries; -1, padding, is before every key
  for (int64_t b = 0; b < B; ++b) {
    const int64_t P = lengths[b], n = counts[b], first = b * T + (pad_left ? T - n : 0);
    for (int64_t i = 0; i < n; ++i) positions[first + i] = P + i;
    all_seen = all_seen && n == 1 && P == lengths[0];
    S = std::max(S, P + n);
  }
  if (all_seen) return {};
  const torch::Tensor query = torch::tensor(positions, torch::kInt64).view({B, 1, T, 1});
  return (torch::arange(S) <= query).to(device);
}
// ANCHOR_END: mask

}  // namespace kvbook

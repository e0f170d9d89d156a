// Who sees whom where every row has its own past and its own number of new tokens.
#pragma once

#include <torch/types.h>

#include <vector>

namespace kvbook {

// ANCHOR: mask
/// Row b holds lengths[b] tokens and gets counts[b] new ones in T columns; the other columns are padding, behind the
/// tokens or, with pad_left, before them. A token at position p sees positions 0 to p; padding sees nothing.
/// bool [B, 1, T, S] with S the greatest lengths[b] + counts[b]; undefined where each row has one query and reaches S.
torch::Tensor ragged_mask(const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts, int64_t T,
                          bool pad_left, torch::Device device);
// ANCHOR_END: mask

}  // namespace kvbook

// Which keys a chunk of new tokens may see when the cache already holds some.
#pragma once

#include <torch/types.h>

namespace kvbook {

// ANCHOR: contract
/// P committed tokens, then T new ones. Column j is the key at position j, row i the query at position P + i, and
/// visible[i][j] is j <= P + i. bool [T, P + T].
torch::Tensor causal_mask(int64_t P, int64_t T, torch::Device device);
// ANCHOR_END: contract

}  // namespace kvbook

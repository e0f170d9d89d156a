// Drives a cache by hand, without a model, with keys that say which token they belong to.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

inline constexpr ModelShape kSmallShape = {
    .layers = 2, .heads = 2, .kv_heads = 2, .head_size = 4, .context = 8, .vocabulary = 16};

/// [B, 2, T, 4], where every number of token t is first + t.
torch::Tensor numbered_keys(int64_t first, int64_t T, int64_t B = 1, torch::ScalarType dtype = torch::kFloat32);

/// What layer 0's attention was given: copies, since the views end with commit, and where they lay.
struct Given : KeyValues {
  const void* keys_address;
  const void* values_address;
};

/// One forward of T numbered tokens; values are the keys negated.
Given forward_numbered(KVCache& cache, int64_t T, int64_t B = 1, torch::ScalarType dtype = torch::kFloat32);

/// The numbers of the keys that come back, for row 0: one a slot.
std::vector<int64_t> numbers_of(const torch::Tensor& keys);

}  // namespace kvbook

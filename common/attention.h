// Scaled dot-product attention over whatever a cache returns.
#pragma once

#include <torch/types.h>

#include "common/kv_cache.h"

namespace kvbook {

/// softmax(query · keysᵀ / √D + mask) · values, a head at a time.
/// query [B, H, T, D] -> [B, H, T, D]. Needs H = H_kv.
/// A key that no query of its row may see is zeroed first, so that not even a NaN in it can leak (0 · NaN is NaN); a
/// query that sees no key at all gives zeros.
/// Time: 2·B·H·T·S·D multiply-adds. Memory: with a mask, keys and values are copied once, 2·B·H·S·D; a decode step of
/// one row has none.
torch::Tensor attend(const torch::Tensor& query, const KeyValues& kv);

}  // namespace kvbook

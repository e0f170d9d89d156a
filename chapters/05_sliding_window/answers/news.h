// Exercise 5.3: how far news travels through a window.
#pragma once

#include "common/gpt2.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// How far the logits of each position move when the token at `position` becomes `other`: the greatest change of each
/// position, float64 [T]. ids int64 [1, T] are fed one by one; the cache is reset before and after.
torch::Tensor news_of_a_change(Gpt2& model, KVCache& cache, const torch::Tensor& ids, int64_t position, int64_t other);
// ANCHOR_END: contract

}  // namespace kvbook

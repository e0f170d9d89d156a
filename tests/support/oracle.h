// What every cache is compared with: chapter 1's full recompute, with a band in its mask for windows.
// Chapter 1 itself is held to transformers by golden_test.
#pragma once

#include "chapters/01_naive/naive_gpt2.h"
#include "common/generate.h"

namespace kvbook {

/// Query i sees keys max(0, i - window + 1) to i, written as two loops. bool [T, T].
torch::Tensor banded_mask(int64_t T, int64_t window);

/// Logits of every position, [B, T, V], with no cache. A window of at least T changes nothing.
torch::Tensor full_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids, int64_t window);
torch::Tensor full_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids,
                             const std::vector<int64_t>& windows);  ///< a layer each

/// Greedy decoding by full recompute: the ids [B, new_tokens].
torch::Tensor greedy_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids, int64_t window,
                               int64_t new_tokens);

/// Feeds ids [B, T] to the cache in chunks of these sizes and returns the logits of every position, [B, T, V].
torch::Tensor in_chunks(Gpt2& model, KVCache& cache, const torch::Tensor& ids, const std::vector<int64_t>& sizes);

/// Greedy decoding with a cache, by hand, for any batch: the ids [B, new_tokens].
torch::Tensor greedy_cached(Gpt2& model, KVCache& cache, const torch::Tensor& ids, int64_t new_tokens);

}  // namespace kvbook

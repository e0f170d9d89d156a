// The one greedy loop of chapters 2 and later: prefill in chunks, then one token a forward.
#pragma once

#include "common/generation.h"
#include "common/gpt2.h"
#include "common/kv_cache.h"

namespace kvbook {

/// Feeds `input` int64 [B, T], T at least 1, after whatever the cache holds, and generates greedily. The last new
/// token is chosen but never fed: to go on, feed it first (see Session).
/// Stops with kContextFull when another token would need a position that the model does not have.
/// @throws c10::IndexError if the input itself passes the context; c10::ValueError for an empty input, an id outside
/// the vocabulary, or a chunk or number of new tokens below 1: nothing is fed then. What the cache refuses later (room,
/// a chunk on history) leaves the chunks before it committed.
Generation generate(Gpt2& model, KVCache& cache, const torch::Tensor& input, const GenerateOptions& options);

}  // namespace kvbook

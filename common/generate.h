// The one greedy loop of chapters 2 and later: prefill in chunks, then one token a forward.
#pragma once

#include "common/generation.h"
#include "common/gpt2.h"
#include "common/kv_cache.h"

namespace kvbook {

/// Feeds `input` int64 [B, T], T at least 1, after whatever the cache holds, and generates greedily. The last new
/// token is chosen but never fed: to go on, feed it first (see Session).
/// Stops with kContextFull when another token would need a position that the model does not have.
/// @throws c10::IndexError if the input itself passes the context; c10::ValueError for an empty input. Nothing is
/// fed then.
Generation generate(Gpt2& model, KVCache& cache, const torch::Tensor& input, const GenerateOptions& options);

/// The most new tokens for a sequence of `tokens` in all, prompt included: context - tokens + 1.
/// @throws c10::IndexError if tokens > context.
int64_t room_after(int64_t tokens, int64_t context);

/// @throws c10::ValueError unless ids is int64 [B, T], not empty, and each in [0, vocabulary).
void check_ids(const torch::Tensor& ids, int64_t vocabulary);

}  // namespace kvbook

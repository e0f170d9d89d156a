// Exercise 1.2: what a generation costs, counted instead of measured.
#pragma once

#include <cstdint>

#include "common/config.h"

namespace kvbook {

// ANCHOR: contract
struct Work {
  int64_t tokens_fed = 0;
  int64_t multiply_adds = 0;  // of matrix products; all else is small beside them
};

/// One forward of one row: T tokens fed, S keys each, and the logits of the last position.
Work forward_work(const Gpt2Config& config, int64_t T, int64_t S);

/// A prompt and `new_tokens` greedy ones, where every forward feeds everything again.
Work work_without_cache(const Gpt2Config& config, int64_t prompt, int64_t new_tokens);

/// The same where the prompt is fed once and every new token but the last once.
Work work_with_cache(const Gpt2Config& config, int64_t prompt, int64_t new_tokens);
// ANCHOR_END: contract

}  // namespace kvbook

// Exercise 7.1: chunks of prompts and single tokens of rows that decode, in one forward.
#pragma once

#include "common/batch_generation.h"

namespace kvbook {

struct MixedGeneration {
  std::vector<std::vector<int64_t>> new_ids;  // a request each
  std::vector<int64_t> columns = {};          // T of each forward
  int64_t padding_tokens = 0;                 // B·T less what was fed, over all forwards
};

// ANCHOR: contract
/// Generates greedily for all requests, each as if it were alone. Every row that has something to be fed takes part in
/// every forward: with at most `chunk` tokens of its prompt, then with the token chosen last.
/// The cache must be empty and have `rows` rows of its own; it is empty again afterwards.
/// Memory: a copy of each prompt in work, beside the cache and the forward.
/// Time:   no forward has more than `chunk` columns. n tokens of a prompt take ⌈n / chunk⌉ forwards.
/// @throws c10::ValueError or IndexError, before anything is fed, for a prompt that generate() would refuse, for no new
/// token or more than the context has room for, and unless rows and chunk are at least 1.
MixedGeneration generate_mixed(Gpt2& model, KVCache& cache, const std::vector<Request>& requests, int64_t rows,
                               int64_t chunk);
// ANCHOR_END: contract

}  // namespace kvbook

// Exercise 7.2: the shortest prompt first.
#pragma once

#include "common/batch_generation.h"

namespace kvbook {

// ANCHOR: contract
/// generate_batch(), but a free row takes the shortest prompt that waits, of equals the first that came. Answers, and
/// the numbers that on_token is given, are in the order of the requests.
/// Memory: a copy of the requests. Time: sorting them. @throws as generate_batch().
BatchGeneration generate_shortest_first(Gpt2& model, KVCache& cache, const std::vector<Request>& requests,
                                        const BatchOptions& options);
// ANCHOR_END: contract

}  // namespace kvbook

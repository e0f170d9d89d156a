// Exercise 8.2: beam search, a row a beam.
#pragma once

#include "chapters/08_paged/paged_cache.h"
#include "common/gpt2.h"

namespace kvbook {

struct Beam {
  std::vector<int64_t> new_ids;
  double score = 0;  // the sum of their log-probabilities
};

// ANCHOR: contract
/// Goes on from `prompt` with `new_tokens` tokens in k ways, best first. In each step all continuations of all beams
/// are scored, and the k best of them are the next beams; of equals that of the earlier beam is the better one, then
/// that with the lowest id. k = 1 is greedy decoding. No text ends early. The cache must have at least k rows, the
/// first k of them empty; they are empty again afterwards. Memory: pages for the prompt once, and at most for k
/// different continuations; beside the cache k·V scores. Time:   a forward of the prompt, then one of k tokens for each
/// new token but the last; sorts k·V scores each time.
/// @throws c10::ValueError or IndexError, before anything is fed, for a prompt that generate() would refuse, for no new
/// token or more than the context has room for, for a cache without k empty rows, and unless k is between 1 and V.
/// OutOfPages if the pool is short, c10::ValueError if logits are not finite: reset the cache then.
std::vector<Beam> beam_search(Gpt2& model, PagedCache& cache, const std::vector<int64_t>& prompt, int64_t k,
                              int64_t new_tokens);
// ANCHOR_END: contract

}  // namespace kvbook

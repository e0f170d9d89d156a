// Several requests on one cache whose rows have lengths of their own: rows finish and leave, waiting ones take their
// place.
#pragma once

#include "common/generation.h"
#include "common/gpt2.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: request
/// A text to go on from, and how far.
struct Request {
  std::vector<int64_t> prompt;
  int64_t new_tokens = 200;  // at least 1
};

enum class Batching {
  kContinuous,  // a row whose request has finished is free for the next one at once
  kStatic,      // rows are filled together, and stay in every forward until the last of them has finished
};

struct BatchOptions {
  int64_t rows = 1;  // requests at once; the others wait
  Batching batching = Batching::kContinuous;
  bool pad_left = false;                // where the padding of a prompt's forward stands
  std::optional<int64_t> chunk = {};    // prefill at most this many tokens of a row in one forward
  std::optional<int64_t> stop_at = {};  // a request ends with this id
  Clock clock = steady_seconds;
  std::function<void(size_t request, int64_t id)> on_token = {};  // as soon as it is known; may be empty
};
// ANCHOR_END: request

struct BatchGeneration {
  std::vector<Generation> answers;  // one row each, in the order of the requests; times count from the start of all
  int64_t forwards = 0;
  int64_t real_tokens = 0;     // fed
  int64_t padding_tokens = 0;  // computed beside them
  int64_t adopted_tokens = 0;  // not fed, since the cache had them (chapter 8)
  int64_t preemptions = 0;     // requests that gave their row and its pages back, to be continued later (chapter 8)

  int64_t new_tokens() const;    ///< of all requests
  double all_started() const;    ///< when the last request got its first token
  double all_ended() const;      ///< when the last token of all was known
  double tokens_per_s() const;   ///< all new tokens / (all_ended() - start)
  double padding_share() const;  ///< of all tokens computed
};

/// Generates greedily for all requests, each as if it were alone. Prompts first: rows that have one to be fed share a
/// forward; then all rows decode together. Every request that has finished leaves its row empty. A request adopts what
/// the cache has of its beginning (adopt_prefix).
/// The cache must be empty and made for options.rows rows.
/// @throws c10::ValueError or IndexError as generate() for any of the requests, or for a cache of another kind, with
/// fewer rows or with tokens in it, before anything is fed. What the cache refuses later, or logits that are not
/// finite, end all requests: reset the cache then. But for OutOfPages: the request admitted last is preempted, as long
/// as there is another.
BatchGeneration generate_batch(Gpt2& model, KVCache& cache, const std::vector<Request>& requests,
                               const BatchOptions& options);

}  // namespace kvbook

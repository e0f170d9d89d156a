// What the program of a chapter with rows does for several prompts: answer all of them, then compare each with its solo
// run.
#pragma once

#include <string>
#include <vector>

#include "common/batch_generation.h"
#include "common/program.h"

namespace kvbook {

/// Several prompts and their answers, in the order given.
struct BatchConversation {
  std::vector<std::vector<int64_t>> prompts;
  BatchGeneration generation;
  int64_t kv_bytes = 0;  // at the end
  bool waited = false;   // some prompts had to wait for a row

  double min_margin() const;                           ///< over all rows
  std::optional<double> ttft_ms() const;               ///< until every row has its first token; none where some waited
  std::optional<double> prefill_tokens_per_s() const;  ///< all prompts' tokens / that
  std::optional<double> decode_tokens_per_s() const;   ///< all tokens but the first of each row / the time after it
};

/// Answers all prompts on one cache. Listeners may be empty.
BatchConversation converse_in_batch(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                                    const std::vector<std::vector<int64_t>>& prompts,
                                    const ForwardListener& on_forward = {}, const std::function<void()>& on_token = {});

/// The whole run, as run_program's for one prompt. Returns the exit status.
int run_batch(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
              const std::vector<std::vector<int64_t>>& prompts, const std::vector<Chapter>& list);

}  // namespace kvbook

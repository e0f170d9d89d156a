// What every generation loop reports, and the bookkeeping they share: choose, time, stop.
#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/timings.h"

namespace kvbook {

enum class FinishReason { kLength, kEos, kContextFull };

const char* to_string(FinishReason reason);  ///< "length", "eos", "context_full": the contract's words

struct GenerateOptions {
  int64_t new_tokens = 200;             // at least 1
  std::optional<int64_t> chunk = {};    // prefill at most this many tokens a forward; undefined: the whole prompt
  std::optional<int64_t> stop_at = {};  // end when every row has produced this id, which is its last
  Clock clock = steady_seconds;         // a test brings its own
  std::function<void(const torch::Tensor&)> on_token = {};  // int64 [B], as soon as they are known; may be empty
};

struct Generation {
  torch::Tensor new_ids;  // int64 [B, n]; a row that stopped earlier is filled up with the stop id
  FinishReason finish_reason = FinishReason::kLength;
  double min_margin = 0;      // the smallest gap between the two best logits over all decisions
  torch::Tensor last_logits;  // [B, V]: of the last decision, that of rows that had stopped too
  Timings timings;
};

/// The index of the greatest logit of each row, the lowest one of equals: [B, V] -> int64 [B].
torch::Tensor greedy_choice(const torch::Tensor& logits);

/// The most new tokens for a sequence of `tokens` in all, prompt included: context - tokens + 1.
/// @throws c10::IndexError if tokens > context.
int64_t room_after(int64_t tokens, int64_t context);

/// @throws c10::ValueError unless ids is int64 [B, T], not empty, and each in [0, vocabulary).
void check_ids(const torch::Tensor& ids, int64_t vocabulary);

/// One id a row at a time, from logits, until there is a reason to stop. The loops differ in how they make logits;
/// this part is the same for all.
class GreedyDecoder {
 public:
  /// `room`: the most new tokens that the context allows (the last one is never fed).
  /// @throws c10::ValueError unless options.new_tokens is at least 1.
  GreedyDecoder(const GenerateOptions& options, int64_t prompt_tokens, int64_t room);

  /// Chooses from logits [B, V] and notes the time. @throws c10::ValueError if a best logit is NaN or infinite.
  /// Returns the new ids, int64 [B, 1], shaped to be fed.
  torch::Tensor choose(const torch::Tensor& logits);

  bool finished() const { return finished_; }
  Generation result();  ///< once, when finished

 private:
  void note_margin(const torch::Tensor& logits);
  void decide_whether_finished();

  GenerateOptions options_;
  int64_t room_;
  bool finished_ = false;
  torch::Tensor stopped_;  // bool [B]: this row has produced the stop id
  std::vector<torch::Tensor> chosen_;
  Generation generation_;
};

}  // namespace kvbook

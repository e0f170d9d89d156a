#include "common/generation.h"

#include <cmath>
#include <limits>

namespace kvbook {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kContextFull:
      return "context_full";
  }
  TORCH_INTERNAL_ASSERT(false, "unknown finish reason");
}

void check_ids(const torch::Tensor& ids, int64_t vocabulary) {
  TORCH_CHECK_VALUE(ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64, "ids must be int64 [B, T]");
  TORCH_CHECK_VALUE(ids.numel() > 0, "the prompt is empty: give at least one token");
  const torch::Tensor outside = ids.masked_select((ids < 0).logical_or(ids >= vocabulary));
  TORCH_CHECK_VALUE(outside.numel() == 0, "id ", outside.numel() > 0 ? outside[0].item<int64_t>() : 0,
                    " is not in the model's vocabulary of ", vocabulary, " (0 to ", vocabulary - 1, ")");
}

int64_t room_after(int64_t tokens, int64_t context) {
  TORCH_CHECK_INDEX(tokens <= context, "the input with all before it comes to ", tokens,
                    " tokens and the model's context is ", context, ": shorten it");
  return context - tokens + 1;
}

// at::argmax returns the first of equal maxima; a test holds it to that.
torch::Tensor greedy_choice(const torch::Tensor& logits) { return logits.argmax(-1); }

GreedyDecoder::GreedyDecoder(const GenerateOptions& options, int64_t prompt_tokens, int64_t room)
    : options_(options), room_(room) {
  TORCH_CHECK_VALUE(options.new_tokens >= 1, "at least 1 new token must be asked for, not ", options.new_tokens);
  TORCH_INTERNAL_ASSERT(room >= 1, "a prompt that fits leaves room for one new token");
  generation_.min_margin = std::numeric_limits<double>::infinity();
  generation_.timings.prompt_tokens = prompt_tokens;
  generation_.timings.start = options_.clock();
}

torch::Tensor GreedyDecoder::choose(const torch::Tensor& logits) {
  torch::Tensor next = greedy_choice(logits);  // [B]
  generation_.timings.token_times.push_back(options_.clock());
  note_margin(logits);
  if (options_.stop_at) {
    if (!stopped_.defined()) stopped_ = torch::zeros_like(next, torch::kBool);
    next = next.masked_fill(stopped_, *options_.stop_at);
    stopped_ = stopped_.logical_or(next == *options_.stop_at);
  }
  chosen_.push_back(next);
  generation_.last_logits = logits;
  decide_whether_finished();
  if (options_.on_token) options_.on_token(next);
  return next.unsqueeze(1);
}

void GreedyDecoder::note_margin(const torch::Tensor& logits) {
  const torch::Tensor best = std::get<0>(logits.topk(std::min<int64_t>(2, logits.size(-1)), -1)).to(torch::kDouble);
  TORCH_CHECK_VALUE(best.isfinite().all().item<bool>(),
                    "the model's logits are not finite: its weights are damaged, or too large for this dtype");
  if (best.size(-1) < 2) return;  // a vocabulary of one word leaves no choice
  torch::Tensor margins = best.select(-1, 0) - best.select(-1, 1);
  if (stopped_.defined()) margins = margins.masked_select(stopped_.logical_not());
  if (margins.numel() > 0) {
    generation_.min_margin = std::min(generation_.min_margin, margins.min().item<double>());
  }
}

void GreedyDecoder::decide_whether_finished() {
  const int64_t n = static_cast<int64_t>(chosen_.size());
  if (stopped_.defined() && stopped_.all().item<bool>()) {
    finished_ = true;
    generation_.finish_reason = FinishReason::kEos;
  } else if (n == options_.new_tokens) {
    finished_ = true;
    generation_.finish_reason = FinishReason::kLength;
  } else if (n == room_) {
    finished_ = true;
    generation_.finish_reason = FinishReason::kContextFull;
  }
}

Generation GreedyDecoder::result() {
  TORCH_INTERNAL_ASSERT(finished_, "the generation has not finished");
  generation_.new_ids = torch::stack(chosen_, 1);
  return std::move(generation_);
}

}  // namespace kvbook

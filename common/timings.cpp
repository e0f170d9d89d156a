#include "common/timings.h"

#include <chrono>

namespace kvbook {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Timings::ttft_ms() const { return 1e3 * (token_times.front() - start); }

double Timings::prefill_tokens_per_s() const { return prompt_tokens / (token_times.front() - start); }

std::optional<double> Timings::decode_tokens_per_s() const {
  if (token_times.size() < 2) return std::nullopt;
  return (token_times.size() - 1) / (token_times.back() - token_times.front());
}

double Timings::tokens_per_s() const { return token_times.size() / (token_times.back() - start); }

std::vector<double> Timings::step_ms() const {
  std::vector<double> steps;
  for (size_t i = 1; i < token_times.size(); ++i) steps.push_back(1e3 * (token_times[i] - token_times[i - 1]));
  return steps;
}

}  // namespace kvbook

// When the tokens of one generation came, and the three rates that must not be mixed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kvbook {

/// Seconds from some fixed moment.
using Clock = std::function<double()>;
double steady_seconds();

struct Timings {
  int64_t prompt_tokens = 0;
  double start = 0;                 // before the prompt is fed
  std::vector<double> token_times;  // when each new token was known

  /// Time to first token: the prompt's forward and the first choice.
  double ttft_ms() const;
  /// prompt / TTFT.
  double prefill_tokens_per_s() const;
  /// (n - 1) / (t_last - t_first): neither the prompt nor the first token counts. None for a single token.
  std::optional<double> decode_tokens_per_s() const;
  /// n / (t_last - t_start): the prompt's time counts too.
  double tokens_per_s() const;
  /// Milliseconds of each decode step, n - 1 of them.
  std::vector<double> step_ms() const;
};

}  // namespace kvbook

// The small reference models and what transformers says of them, from data/golden.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint.h"

namespace kvbook {

/// "nano" (2 layers, context 8) or "tiny" (3 layers, context 64), in any dtype.
Checkpoint golden_checkpoint(const std::string& name, torch::ScalarType dtype = torch::kFloat64);

/// The JSON file data/golden/PATH.
nlohmann::json golden_json(const std::string& path);

/// Nested arrays of numbers as a float64 tensor of the same shape.
torch::Tensor tensor_of(const nlohmann::json& nested);

/// One greedy run of transformers in float64.
struct GoldenRun {
  std::optional<int64_t> window;
  std::vector<int64_t> windows;  // a layer each, 0: full; empty unless each has its own
  std::vector<int64_t> prompt;
  std::vector<int64_t> ids;         // prompt, then the new ids
  std::vector<double> last_logits;  // after the prompt: they chose the first new id
  std::vector<double> end_logits;   // they chose the last one

  int64_t new_tokens() const { return static_cast<int64_t>(ids.size() - prompt.size()); }
  std::vector<int64_t> new_ids() const { return {ids.begin() + static_cast<int64_t>(prompt.size()), ids.end()}; }
};

/// kind: "full" (no window), "window" or "layers" (a window a layer).
std::vector<GoldenRun> golden_runs(const std::string& name, const std::string& kind);

}  // namespace kvbook

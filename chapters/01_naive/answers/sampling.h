// Exercise 1.1: the next word drawn instead of chosen, the same draw whatever made the logits.
#pragma once

#include <torch/types.h>

#include <functional>
#include <random>
#include <vector>

#include "chapters/01_naive/naive_gpt2.h"
#include "common/gpt2.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// The word whose share of [0, 1) holds u: words lie side by side in order of their ids, each as wide as its
/// probability in softmax(logits / temperature), in float64. logits [V], u in [0, 1).
/// @throws c10::ValueError unless temperature is finite and above 0, and the best logit is finite.
int64_t word_at(const torch::Tensor& logits, double temperature, double u);

/// Chooses word after word and draws one number for each; temperature 0 is greedy and draws none.
class Sampler {
 public:
  /// @throws c10::ValueError unless temperature is finite and at least 0.
  Sampler(double temperature, uint64_t seed);
  int64_t choose(const torch::Tensor& logits);  ///< logits [V]

 private:
  double temperature_;
  std::mt19937_64 engine_;  // the standard says what it gives, bit by bit
};

/// The engine's next number as one in [0, 1): its upper 53 bits, which a double holds exactly.
double draw(std::mt19937_64& engine);
// ANCHOR_END: contract

// ANCHOR: next_logits
/// Logits after a whole sequence: int64 [1, n], n at least 1 -> [V]. A cache is a way to compute the same faster.
using NextLogits = std::function<torch::Tensor(const torch::Tensor& sequence)>;

NextLogits without_cache(const NaiveGpt2& model);

/// Feeds what the cache has not seen, which has to be all that differs from call to call. `cache` must outlive the
/// result.
NextLogits with_cache(Gpt2 model, KVCache& cache);

/// `new_tokens` words after the prompt, each drawn from the logits of everything before it.
std::vector<int64_t> sample(const NextLogits& next_logits, const std::vector<int64_t>& prompt, int64_t new_tokens,
                            Sampler sampler);
// ANCHOR_END: next_logits

}  // namespace kvbook

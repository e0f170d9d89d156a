#include "chapters/01_naive/answers/sampling.h"

#include <cmath>

#include "common/generation.h"
#include "common/ids.h"

namespace kvbook {

// ANCHOR: word_at
int64_t word_at(const torch::Tensor& logits, double temperature, double u) {
  TORCH_CHECK_VALUE(std::isfinite(temperature) && temperature > 0, "the temperature must be above 0, not ",
                    temperature);
  const torch::Tensor exact = logits.to(torch::kFloat64);
  const torch::Tensor best = exact.max();
  TORCH_CHECK_VALUE(best.isfinite().item<bool>(), "the best logit is not finite: the model's weights are damaged");
  const torch::Tensor probability = ((exact - best) / temperature).softmax(-1);  // less the best: nothing overflows
  const torch::Tensor ends = probability.cumsum(-1);
  // The last end becomes 1 exactly, so that every u below 1 has its word. right: the first word whose end is above u.
  const torch::Tensor found =
      at::searchsorted(ends / ends[-1], torch::tensor(u, torch::kFloat64), false, /*right=*/true);
  return found.item<int64_t>();
}
// ANCHOR_END: word_at

// ANCHOR: sampler
Sampler::Sampler(double temperature, uint64_t seed) : temperature_(temperature), engine_(seed) {
  TORCH_CHECK_VALUE(std::isfinite(temperature) && temperature >= 0, "the temperature must be 0 or more, not ",
                    temperature);
}

double draw(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

int64_t Sampler::choose(const torch::Tensor& logits) {
  if (temperature_ == 0) return greedy_choice(logits).item<int64_t>();
  return word_at(logits, temperature_, draw(engine_));
}
// ANCHOR_END: sampler

// ANCHOR: next_logits
NextLogits without_cache(const NaiveGpt2& model) {
  return [model](const torch::Tensor& sequence) {
    return model.logits(model.hidden(sequence).select(1, -1))[0];  // every token, again
  };
}

NextLogits with_cache(Gpt2 model, KVCache& cache) {
  return [model = std::move(model), &cache](const torch::Tensor& sequence) mutable {
    const int64_t P = cache.length();
    const torch::Tensor fresh = sequence.narrow(1, P, sequence.size(1) - P);
    return model->logits(model->hidden({fresh}, cache).select(1, -1))[0];
  };
}

std::vector<int64_t> sample(const NextLogits& next_logits, const std::vector<int64_t>& prompt, int64_t new_tokens,
                            Sampler sampler) {
  std::vector<int64_t> sequence = prompt;
  for (int64_t n = 0; n < new_tokens; ++n) sequence.push_back(sampler.choose(next_logits(to_row(sequence))));
  return {sequence.begin() + static_cast<int64_t>(prompt.size()), sequence.end()};
}
// ANCHOR_END: next_logits

}  // namespace kvbook

#include "chapters/01_naive/answers/work.h"

namespace kvbook {
namespace {

Work operator+(const Work& a, const Work& b) {
  return {a.tokens_fed + b.tokens_fed, a.multiply_adds + b.multiply_adds};
}

}  // namespace

// ANCHOR: work
Work forward_work(const Gpt2Config& config, int64_t T, int64_t S) {
  const int64_t L = config.layers, E = config.embedding;
  const int64_t projections = 4 * E * E;       // c_attn makes 3·E numbers of E, attn.c_proj makes E
  const int64_t mlp = 2 * E * config.inner;    // to the inner width and back
  const int64_t attention = 2 * S * E;         // a query with S keys, then S weights with S values, over all heads
  const int64_t head = E * config.vocabulary;  // once a forward: only the last position's logits are asked for
  return {T, L * T * (projections + mlp + attention) + head};
}

Work work_without_cache(const Gpt2Config& config, int64_t prompt, int64_t new_tokens) {
  Work sum;
  for (int64_t n = prompt; n < prompt + new_tokens; ++n) sum = sum + forward_work(config, n, n);
  return sum;
}

Work work_with_cache(const Gpt2Config& config, int64_t prompt, int64_t new_tokens) {
  Work sum = forward_work(config, prompt, prompt);
  for (int64_t n = prompt + 1; n < prompt + new_tokens; ++n) sum = sum + forward_work(config, 1, n);
  return sum;
}
// ANCHOR_END: work

}  // namespace kvbook

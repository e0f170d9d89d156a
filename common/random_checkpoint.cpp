// Seeded weights for the 124M shape: for measuring and for comparing caches, without a download.
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "common/checkpoint.h"

namespace kvbook {
namespace {

// GPT-2's own start, a deviation of 0.02 everywhere, makes greedy decoding repeat one token for ever: attention is
// uniform, so every token's output is nearly the same, and with a tied head the same token wins. Here:
//  - the weights of a linear layer have a deviation of gain/√in, so that no layer fades;
//  - the gain of c_attn is 2.5: scores then differ by several units, and attention picks a few keys instead of
//    averaging them all, so that what is written depends on the whole history;
//  - embeddings, biases and LayerNorm weights spread by 0.1, so that each of them shows in the logits.
// Measured on the 124M shape, float32, seed 124, prompt 15496,11,314,716: 164 different tokens among 200, 594 among
// 900. The smallest gap between the two best logits is 2.9e-3 in 200 steps and 2.0e-3 in 900; rounding moves the first
// of them by 8e-5. Float64 gives the same 200 tokens.
//
// Numbers are uniform, not normal: a normal one needs a logarithm and a cosine, whose last bits differ between CPUs.
// They are drawn in float32 from one generator, the tensors in alphabetical order (that of weight_shapes);
// tools/golden/make_gpt2_random_golden.py draws the same in Python.

struct Spread {
  double deviation;
  double mean;
};

Spread spread_of(const std::string& name, const std::vector<int64_t>& shape) {
  if (name.starts_with("wte") || name.starts_with("wpe")) return {0.1, 0.0};
  if (name.ends_with(".bias")) return {0.1, 0.0};
  if (!is_conv1d(name, shape)) return {0.1, 1.0};  // LayerNorm
  const double gain = name.ends_with("c_attn.weight") ? 2.5 : 1.0;
  return {gain / std::sqrt(static_cast<double>(shape[0])), 0.0};
}

torch::Tensor draw(const std::vector<int64_t>& shape, const Spread& spread, const torch::Generator& generator) {
  const double width = spread.deviation * std::sqrt(12.0);  // a uniform number in [0, 1) has a deviation of 1/√12
  // Three steps, each of which rounds by itself: the same bits whether or not the CPU fuses a product and a sum.
  return torch::rand(shape, generator, torch::kFloat32).sub_(0.5).mul_(width).add_(spread.mean);
}

}  // namespace

Checkpoint random_checkpoint(const Gpt2Config& config, uint64_t seed, torch::ScalarType dtype) {
  check_weight_dtype(dtype);
  Checkpoint checkpoint{config, {}};
  const torch::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& [name, shape] : weight_shapes(config)) {
    const torch::Tensor values = draw(shape, spread_of(name, shape), generator);
    checkpoint.weights[name] = is_conv1d(name, shape) ? conv1d_layout(values, dtype) : values.to(dtype);
  }
  return checkpoint;
}

Gpt2Config gpt2_124m_config() {
  Gpt2Config config;
  config.layers = 12;
  config.heads = 12;
  config.embedding = 768;
  config.inner = 4 * config.embedding;
  config.vocabulary = 50257;
  config.context = 1024;
  config.eos_id = 50256;
  return config;
}

}  // namespace kvbook

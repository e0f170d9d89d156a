// Seeded weights for the 124M shape: for measuring and for comparing caches, without a download.
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "common/checkpoint.h"

namespace kvbook {
namespace {

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

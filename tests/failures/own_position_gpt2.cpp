#include "tests/failures/own_position_gpt2.h"

namespace kvbook {

// ANCHOR: hidden
torch::Tensor OwnPositionGpt2::hidden(const Step& step, KVCache& cache) {
  const at::NoGradGuard no_grad;
  if (cache.length() == 0) position_ = 0;
  cache.begin(step);  // wrong: it returns the positions, and nobody reads them
  const int64_t T = step.ids.size(1);
  const torch::Tensor positions = torch::arange(position_, position_ + T, step.ids.options());
  const auto parameters = named_parameters();
  torch::Tensor x =
      at::embedding(parameters["wte.weight"], step.ids) + at::embedding(parameters["wpe.weight"], positions);
  for (const auto& block : *named_children()["h"]->as<torch::nn::ModuleList>()) {
    x = block->as<Block>()->forward(x, cache);
    after_layer(T);
  }
  x = named_children()["ln_f"]->as<LayerNorm>()->forward(x);
  cache.commit();
  after_forward(T);
  return x;
}
// ANCHOR_END: hidden

}  // namespace kvbook

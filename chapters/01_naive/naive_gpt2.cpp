#include "chapters/01_naive/naive_gpt2.h"

#include <cmath>
#include <limits>

namespace kvbook {

NaiveGpt2::NaiveGpt2(const Checkpoint& checkpoint) : config_(checkpoint.config), weights_(checkpoint.weights) {}

// ANCHOR: forward
torch::Tensor NaiveGpt2::hidden(const torch::Tensor& ids) const {
  const int64_t T = ids.size(1);
  return hidden(ids, torch::ones({T, T}, torch::kBool).tril());  // causal: key j is visible to query i if j <= i
}

torch::Tensor NaiveGpt2::hidden(const torch::Tensor& ids, const torch::Tensor& visible) const {
  const at::NoGradGuard no_grad;
  const int64_t T = ids.size(1);
  TORCH_CHECK_INDEX(T <= config_.context, T, " tokens do not fit the model's context of ", config_.context);

  // A token's vector is what it is plus where it stands.
  torch::Tensor x = at::embedding(weight("wte.weight"), ids) + weight("wpe.weight").narrow(0, 0, T);
  const torch::Tensor of_layer = visible.expand({config_.layers, T, T});
  for (int64_t layer = 0; layer < config_.layers; ++layer) x = block(x, layer, of_layer[layer]);
  return layer_norm(x, "ln_f");
}

torch::Tensor NaiveGpt2::logits(const torch::Tensor& hidden) const {
  const at::NoGradGuard no_grad;
  return at::matmul(hidden, weight("wte.weight").t());  // the table that embeds the words also scores them
}
// ANCHOR_END: forward

// ANCHOR: block
torch::Tensor NaiveGpt2::block(const torch::Tensor& x, int64_t layer, const torch::Tensor& visible) const {
  const std::string name = "h." + std::to_string(layer);
  const torch::Tensor attended = x + attention(layer_norm(x, name + ".ln_1"), name + ".attn", visible);
  return attended + mlp(layer_norm(attended, name + ".ln_2"), name + ".mlp");
}
// ANCHOR_END: block

// ANCHOR: attention
torch::Tensor NaiveGpt2::attention(const torch::Tensor& x, const std::string& name,
                                   const torch::Tensor& visible) const {
  const int64_t B = x.size(0), T = x.size(1), E = x.size(2), H = config_.heads, D = E / H;

  // Each token asks (query), offers an address (key) and a content (value), once for each head.
  const auto qkv = linear(x, name + ".c_attn").split(E, -1);                 // three of [B, T, E]
  const torch::Tensor query = qkv[0].reshape({B, T, H, D}).transpose(1, 2);  // [B, H, T, D]
  const torch::Tensor key = qkv[1].reshape({B, T, H, D}).transpose(1, 2);
  const torch::Tensor value = qkv[2].reshape({B, T, H, D}).transpose(1, 2);

  const double infinity = std::numeric_limits<double>::infinity();
  torch::Tensor scores = at::matmul(query, key.transpose(2, 3)) / std::sqrt(D);  // [B, H, T, T]
  scores = scores.masked_fill(visible.logical_not(), -infinity);                 // exp(-inf) = 0: no weight
  const torch::Tensor mixed = at::matmul(scores.softmax(-1), value);             // [B, H, T, D]

  return linear(mixed.transpose(1, 2).reshape({B, T, E}), name + ".c_proj");
}
// ANCHOR_END: attention

// ANCHOR: small_parts
torch::Tensor NaiveGpt2::mlp(const torch::Tensor& x, const std::string& name) const {
  return linear(at::gelu(linear(x, name + ".c_fc"), "tanh"), name + ".c_proj");
}

torch::Tensor NaiveGpt2::layer_norm(const torch::Tensor& x, const std::string& name) const {
  return at::layer_norm(x, {config_.embedding}, weight(name + ".weight"), weight(name + ".bias"),
                        config_.layer_norm_epsilon);
}

torch::Tensor NaiveGpt2::linear(const torch::Tensor& x, const std::string& name) const {
  return at::matmul(x, weight(name + ".weight")) + weight(name + ".bias");  // weights are stored [in, out]
}
// ANCHOR_END: small_parts

// ANCHOR: generate
Generation generate_naively(const NaiveGpt2& model, const torch::Tensor& ids, const GenerateOptions& options) {
  check_ids(ids, model.config().vocabulary);
  GreedyDecoder decoder(options, ids.size(1), room_after(ids.size(1), model.config().context));

  torch::Tensor sequence = ids;
  while (true) {
    const torch::Tensor hidden = model.hidden(sequence);  // every token, again
    const torch::Tensor next = decoder.choose(model.logits(hidden.select(1, -1)));
    if (decoder.finished()) return decoder.result();
    sequence = torch::cat({sequence, next}, 1);
  }
}
// ANCHOR_END: generate

Generation NaiveSession::generate(const torch::Tensor& input, const GenerateOptions& options) {
  const torch::Tensor sequence = said_.defined() ? torch::cat({said_, input}, 1) : input;
  Generation generation = generate_naively(model_, sequence, options);
  said_ = torch::cat({sequence, generation.new_ids}, 1);
  return generation;
}

}  // namespace kvbook

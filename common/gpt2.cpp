#include "common/gpt2.h"

#include <fmt/format.h>

#include "common/attention.h"
#include "common/axes.h"

namespace kvbook {
namespace {

std::string block_name(int64_t layer, const char* part) { return "h." + std::to_string(layer) + "." + part; }

/// Embedding tables as modules of their own give the parameters their names, "wte.weight" and "wpe.weight".
class TableImpl : public torch::nn::Module {
 public:
  explicit TableImpl(const torch::Tensor& weight) { register_parameter("weight", weight, /*requires_grad=*/false); }
};
TORCH_MODULE(Table);

/// A context that is written down in two places, in the cache's options and in the model's, may differ.
void check_made_for(const ModelShape& cache, const ModelShape& model) {
  const auto sizes = [](const ModelShape& s) {
    return fmt::format("{} layers, {} heads, {} key-value heads of {}, context {}, vocabulary {}", s.layers, s.heads,
                       s.kv_heads, s.head_size, s.context, s.vocabulary);
  };
  TORCH_CHECK_VALUE(cache == model, "the cache was made for another model: ", sizes(cache), "; this one has ",
                    sizes(model), ": make the cache from the model's shape()");
}

}  // namespace

Conv1DImpl::Conv1DImpl(const Weights& weights, const std::string& name)
    : weight_(register_parameter("weight", weights.at(name + ".weight"), /*requires_grad=*/false)),
      bias_(register_parameter("bias", weights.at(name + ".bias"), /*requires_grad=*/false)) {}

torch::Tensor Conv1DImpl::forward(const torch::Tensor& x) const { return at::linear(x, weight_.t(), bias_); }

LayerNormImpl::LayerNormImpl(const Weights& weights, const std::string& name, double epsilon)
    : weight_(register_parameter("weight", weights.at(name + ".weight"), /*requires_grad=*/false)),
      bias_(register_parameter("bias", weights.at(name + ".bias"), /*requires_grad=*/false)),
      epsilon_(epsilon) {}

torch::Tensor LayerNormImpl::forward(const torch::Tensor& x) const {
  return at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_);
}

SelfAttentionImpl::SelfAttentionImpl(const Checkpoint& checkpoint, int64_t layer)
    : layer_(layer),
      heads_(checkpoint.config.heads),
      head_size_(checkpoint.config.head_size()),
      c_attn_(register_module("c_attn", Conv1D(checkpoint.weights, block_name(layer, "attn.c_attn")))),
      c_proj_(register_module("c_proj", Conv1D(checkpoint.weights, block_name(layer, "attn.c_proj")))) {}

// ANCHOR: attention_forward
torch::Tensor SelfAttentionImpl::forward(const torch::Tensor& x, KVCache& cache) {
  const int64_t B = x.size(0), T = x.size(1), E = x.size(2);
  const auto per_head = [&](const torch::Tensor& t) {  // [B, T, E] -> [B, H, T, D], a view
    return t.view({B, T, heads_, head_size_}).transpose(kHeadAxis, kSeqAxis);
  };
  const auto qkv = c_attn_(x).split(E, -1);
  const KeyValues kv = cache.update(layer_, per_head(qkv[1]), per_head(qkv[2]));
  const torch::Tensor mixed = attend(per_head(qkv[0]), kv);                 // [B, H, T, D]
  return c_proj_(mixed.transpose(kHeadAxis, kSeqAxis).reshape({B, T, E}));  // heads side by side again
}
// ANCHOR_END: attention_forward

MlpImpl::MlpImpl(const Checkpoint& checkpoint, int64_t layer)
    : c_fc_(register_module("c_fc", Conv1D(checkpoint.weights, block_name(layer, "mlp.c_fc")))),
      c_proj_(register_module("c_proj", Conv1D(checkpoint.weights, block_name(layer, "mlp.c_proj")))) {}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) { return c_proj_(at::gelu(c_fc_(x), "tanh")); }

BlockImpl::BlockImpl(const Checkpoint& checkpoint, int64_t layer)
    : ln_1_(register_module(
          "ln_1", LayerNorm(checkpoint.weights, block_name(layer, "ln_1"), checkpoint.config.layer_norm_epsilon))),
      ln_2_(register_module(
          "ln_2", LayerNorm(checkpoint.weights, block_name(layer, "ln_2"), checkpoint.config.layer_norm_epsilon))),
      attn_(register_module("attn", SelfAttention(checkpoint, layer))),
      mlp_(register_module("mlp", Mlp(checkpoint, layer))) {}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, KVCache& cache) {
  const torch::Tensor attended = x + attn_(ln_1_(x), cache);
  return attended + mlp_(ln_2_(attended));
}

Gpt2Impl::Gpt2Impl(const Checkpoint& checkpoint)
    : config_(checkpoint.config),
      ln_f_(register_module("ln_f", LayerNorm(checkpoint.weights, "ln_f", checkpoint.config.layer_norm_epsilon))),
      token_embedding_(checkpoint.weights.at("wte.weight")),
      position_embedding_(checkpoint.weights.at("wpe.weight")) {
  register_module("wte", Table(token_embedding_));
  register_module("wpe", Table(position_embedding_));
  h_ = register_module("h", torch::nn::ModuleList());
  for (int64_t layer = 0; layer < config_.layers; ++layer) h_->push_back(Block(checkpoint, layer));
}

// ANCHOR: hidden
torch::Tensor Gpt2Impl::hidden(const Step& step, KVCache& cache) {
  const at::NoGradGuard no_grad;
  check_made_for(cache.shape(), shape());
  cache.abandon();  // a forward left open counts for nothing, and begin would say so too late
  const int64_t end = cache.length_after(step);
  TORCH_CHECK_INDEX(end <= config_.context, "position ", end - 1, " is past the model's context of ", config_.context,
                    ": it has no embedding for it");
  const torch::Tensor positions = cache.begin(step);
  torch::Tensor x = at::embedding(token_embedding_, step.ids) + at::embedding(position_embedding_, positions);
  for (const auto& block : *h_) x = block->as<Block>()->forward(x, cache);
  x = ln_f_(x);
  cache.commit();  // last, so that a forward that fails anywhere leaves the cache as it was
  return x;
}
// ANCHOR_END: hidden

torch::Tensor Gpt2Impl::logits(const torch::Tensor& hidden) const {
  const at::NoGradGuard no_grad;
  return at::linear(hidden, token_embedding_);
}

}  // namespace kvbook

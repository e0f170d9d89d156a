// GPT-2 as LibTorch modules. It is given a cache and never knows which one.
// Parameter names are those of the Hugging Face checkpoint: "h.0.attn.c_attn.weight".
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

#include "common/checkpoint.h"
#include "common/kv_cache.h"

namespace kvbook {

/// y = x·W + b with W stored [in, out], as OpenAI's checkpoint has it (there the layer is called Conv1D).
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(const Weights& weights, const std::string& name);
  torch::Tensor forward(const torch::Tensor& x) const;  ///< [B, T, in] -> [B, T, out]
  int64_t inputs() const { return weight_.size(0); }

 private:
  torch::Tensor weight_, bias_;  // [in, out], [out]
};
TORCH_MODULE(Conv1D);

class LayerNormImpl : public torch::nn::Module {
 public:
  LayerNormImpl(const Weights& weights, const std::string& name, double epsilon);
  torch::Tensor forward(const torch::Tensor& x) const;  ///< [B, T, E] -> [B, T, E]

 private:
  torch::Tensor weight_, bias_;  // [E], [E]
  double epsilon_;
};
TORCH_MODULE(LayerNorm);

// ANCHOR: attention
class SelfAttentionImpl : public torch::nn::Module {
 public:
  SelfAttentionImpl(const Checkpoint& checkpoint, int64_t layer);
  torch::Tensor forward(const torch::Tensor& x, KVCache& cache);  ///< [B, T, E] -> [B, T, E]

 private:
  int64_t layer_, heads_, head_size_;
  Conv1D c_attn_, c_proj_;
};
TORCH_MODULE(SelfAttention);
// ANCHOR_END: attention

class MlpImpl : public torch::nn::Module {
 public:
  MlpImpl(const Checkpoint& checkpoint, int64_t layer);
  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, E] -> [B, T, E]

 private:
  Conv1D c_fc_, c_proj_;
};
TORCH_MODULE(Mlp);

/// Pre-LayerNorm: each half reads a normalized copy and adds its result to the residual stream.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const Checkpoint& checkpoint, int64_t layer);
  torch::Tensor forward(const torch::Tensor& x, KVCache& cache);  ///< [B, T, E] -> [B, T, E]

 private:
  LayerNorm ln_1_, ln_2_;
  SelfAttention attn_;
  Mlp mlp_;
};
TORCH_MODULE(Block);

// ANCHOR: gpt2
/// The model. Its parameters are the checkpoint's tensors themselves, not copies. Works in the checkpoint's dtype.
/// Records no gradients, in whatever thread it runs. Stateless between forwards, so threads may share one; a cache,
/// not.
class Gpt2Impl : public torch::nn::Module {
 public:
  explicit Gpt2Impl(const Checkpoint& checkpoint);

  /// One forward of T new tokens a row, as one transaction on the cache.
  /// Returns the hidden states after the final LayerNorm, [B, T, E].
  /// @throws c10::IndexError if the tokens would pass the context, or an id is not in the vocabulary; c10::ValueError
  /// as KVCache::begin, or if the cache was made for another shape than the model's. length() is as it was then,
  /// whatever was thrown; where a layer threw, the forward is still open, and the cache's next begin() or abandon()
  /// undoes it. Virtual for models that run the layers in their own way; so far those of tests/failures, wrongly.
  virtual torch::Tensor hidden(const Step& step, KVCache& cache);

  /// The output head, tied to the token embedding: [..., E] -> [..., V]. Apart from hidden() because generation needs
  /// it for the last position only: a prompt of 1,000 tokens would otherwise make 50 million logits to use 50,257.
  torch::Tensor logits(const torch::Tensor& hidden) const;

  const Gpt2Config& config() const { return config_; }
  ModelShape shape() const { return config_.shape(); }

 private:
  Gpt2Config config_;
  torch::nn::ModuleList h_;  // the L blocks
  LayerNorm ln_f_;
  torch::Tensor token_embedding_, position_embedding_;  // wte [V, E], wpe [context, E]
};
TORCH_MODULE(Gpt2);
// ANCHOR_END: gpt2

}  // namespace kvbook

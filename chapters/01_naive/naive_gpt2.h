// Chapter 1: a complete GPT-2 without a cache, as plain as it can be. Everything later is compared with it, so it
// shares no model, attention, cache or loop with the rest of the book: only how the best logit is chosen and timed.
#pragma once

#include <torch/types.h>

#include "common/checkpoint.h"
#include "common/generation.h"
#include "common/session.h"

namespace kvbook {

// ANCHOR: model
/// Tensors by name and functions on them, nothing else. Holds the checkpoint's tensors, not copies.
class NaiveGpt2 {
 public:
  explicit NaiveGpt2(const Checkpoint& checkpoint);

  /// The whole sequence, from its first token: ids int64 [B, T] -> hidden states [B, T, E].
  /// @throws c10::IndexError if T > context or an id is not in the vocabulary.
  torch::Tensor hidden(const torch::Tensor& ids) const;

  /// The same with another mask, bool [T, T]: query i (row) sees key j (column) where it is true. [L, T, T]: a mask a
  /// layer.
  torch::Tensor hidden(const torch::Tensor& ids, const torch::Tensor& visible) const;

  /// The score of every word as the next one: [..., E] -> [..., V].
  torch::Tensor logits(const torch::Tensor& hidden) const;

  const Gpt2Config& config() const { return config_; }

 private:
  torch::Tensor block(const torch::Tensor& x, int64_t layer, const torch::Tensor& visible) const;
  torch::Tensor attention(const torch::Tensor& x, const std::string& name, const torch::Tensor& visible) const;
  torch::Tensor mlp(const torch::Tensor& x, const std::string& name) const;
  torch::Tensor layer_norm(const torch::Tensor& x, const std::string& name) const;
  torch::Tensor linear(const torch::Tensor& x, const std::string& name) const;
  const torch::Tensor& weight(const std::string& name) const { return weights_.at(name); }

  Gpt2Config config_;
  Weights weights_;
};
// ANCHOR_END: model

/// Greedy generation that feeds the whole sequence again for every new token: n tokens cost n forwards, each longer
/// than the one before. ids int64 [B, T].
/// @throws c10::IndexError if T > context, c10::ValueError if ids is empty or one is outside the vocabulary.
Generation generate_naively(const NaiveGpt2& model, const torch::Tensor& ids, const GenerateOptions& options);

/// Remembers the conversation as ids and nothing else.
class NaiveSession final : public Session {
 public:
  explicit NaiveSession(const Checkpoint& checkpoint) : model_(checkpoint) {}

  Generation generate(const torch::Tensor& input, const GenerateOptions& options) override;
  int64_t bytes() const override { return 0; }

 private:
  NaiveGpt2 model_;
  torch::Tensor said_;  // int64 [B, n]
};

}  // namespace kvbook

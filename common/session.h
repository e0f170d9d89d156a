// A conversation with one model: turn after turn, everything said so far remembered, by a cache or otherwise.
#pragma once

#include <memory>

#include "common/generate.h"

namespace kvbook {

class Session {
 public:
  virtual ~Session() = default;

  /// Appends input, int64 [B, T], after all earlier inputs and answers, and generates. Gives the tokens of a fresh
  /// session on everything so far joined.
  /// @throws as kvbook::generate.
  virtual Generation generate(const torch::Tensor& input, const GenerateOptions& options) = 0;

  virtual int64_t bytes() const = 0;  ///< memory held for keys and values
};

/// Chapters 2 and later: what is remembered lies in a cache.
class CachedSession final : public Session {
 public:
  CachedSession(Gpt2 model, std::unique_ptr<KVCache> cache) : model_(std::move(model)), cache_(std::move(cache)) {}

  Generation generate(const torch::Tensor& input, const GenerateOptions& options) override;
  int64_t bytes() const override { return cache_->bytes(); }

 private:
  Gpt2 model_;
  std::unique_ptr<KVCache> cache_;
  torch::Tensor not_fed_;  // int64 [B, 1]: the last answer's last token, chosen but never fed
};

}  // namespace kvbook

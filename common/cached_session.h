// The session of chapters 2 and later: what is remembered lies in a cache.
#pragma once

#include <memory>

#include "common/gpt2.h"
#include "common/kv_cache.h"
#include "common/session.h"
#include "common/tracing_cache.h"

namespace kvbook {

class CachedSession final : public Session {
 public:
  /// `on_forward`, if not empty, hears of every committed forward.
  CachedSession(Gpt2 model, std::unique_ptr<KVCache> cache, const ForwardListener& on_forward = {});

  Generation generate(const torch::Tensor& input, const GenerateOptions& options) override;
  int64_t bytes() const override { return cache_->bytes(); }

 private:
  Gpt2 model_;
  std::unique_ptr<KVCache> cache_;
  std::unique_ptr<TracingCache> traced_;  // around cache_, where somebody listens
  torch::Tensor not_fed_;                 // int64 [B, 1]: the last answer's last token, chosen but never fed
};

}  // namespace kvbook

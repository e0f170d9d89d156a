#include "common/cached_session.h"

#include "common/generate.h"

namespace kvbook {

CachedSession::CachedSession(Gpt2 model, std::unique_ptr<KVCache> cache, const ForwardListener& on_forward)
    : model_(std::move(model)), cache_(std::move(cache)) {
  if (on_forward) traced_ = std::make_unique<TracingCache>(*cache_, on_forward);
}

// ANCHOR: generate
Generation CachedSession::generate(const torch::Tensor& input, const GenerateOptions& options) {
  const torch::Tensor fed = not_fed_.defined() ? torch::cat({not_fed_, input}, 1) : input;
  KVCache& cache = traced_ ? static_cast<KVCache&>(*traced_) : *cache_;
  Generation generation = kvbook::generate(model_, cache, fed, options);
  not_fed_ = generation.new_ids.narrow(1, generation.new_ids.size(1) - 1, 1);
  return generation;
}
// ANCHOR_END: generate

}  // namespace kvbook

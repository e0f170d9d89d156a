#include "chapters/05_sliding_window/answers/news.h"

namespace kvbook {
namespace {

/// float64 [T, V].
torch::Tensor logits_one_by_one(Gpt2& model, KVCache& cache, const torch::Tensor& ids) {
  cache.reset();
  std::vector<torch::Tensor> logits;
  for (const torch::Tensor& id : ids.split(1, 1)) logits.push_back(model->logits(model->hidden({id}, cache))[0]);
  cache.reset();
  return torch::cat(logits).to(torch::kFloat64);
}

}  // namespace

// ANCHOR: news
torch::Tensor news_of_a_change(Gpt2& model, KVCache& cache, const torch::Tensor& ids, int64_t position, int64_t other) {
  torch::Tensor changed = ids.clone();
  changed[0][position] = other;
  const torch::Tensor before = logits_one_by_one(model, cache, ids);
  const torch::Tensor after = logits_one_by_one(model, cache, changed);
  return (after - before).abs().amax(-1);
}
// ANCHOR_END: news

}  // namespace kvbook

#include "tests/support/oracle.h"

namespace kvbook {

torch::Tensor banded_mask(int64_t T, int64_t window) {
  torch::Tensor mask = torch::zeros({T, T}, torch::kBool);
  auto visible = mask.accessor<bool, 2>();
  for (int64_t i = 0; i < T; ++i) {
    for (int64_t j = std::max<int64_t>(0, i - window + 1); j <= i; ++j) visible[i][j] = true;
  }
  return mask;
}

torch::Tensor full_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids, int64_t window) {
  return full_recompute(checkpoint, ids, std::vector<int64_t>(checkpoint.config.layers, window));
}

torch::Tensor full_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids,
                             const std::vector<int64_t>& windows) {
  const NaiveGpt2 naive(checkpoint);
  std::vector<torch::Tensor> masks;
  for (const int64_t window : windows) masks.push_back(banded_mask(ids.size(1), window));
  return naive.logits(naive.hidden(ids, torch::stack(masks)));
}

torch::Tensor greedy_recompute(const Checkpoint& checkpoint, const torch::Tensor& ids, int64_t window,
                               int64_t new_tokens) {
  torch::Tensor sequence = ids;
  for (int64_t n = 0; n < new_tokens; ++n) {
    const torch::Tensor logits = full_recompute(checkpoint, sequence, window).select(1, -1);
    sequence = torch::cat({sequence, logits.argmax(-1, /*keepdim=*/true)}, 1);
  }
  return sequence.narrow(1, ids.size(1), new_tokens);
}

torch::Tensor in_chunks(Gpt2& model, KVCache& cache, const torch::Tensor& ids, const std::vector<int64_t>& sizes) {
  std::vector<torch::Tensor> logits;
  for (const torch::Tensor& chunk : ids.split_with_sizes(sizes, 1)) {
    logits.push_back(model->logits(model->hidden({chunk}, cache)));
  }
  return torch::cat(logits, 1);
}

torch::Tensor greedy_cached(Gpt2& model, KVCache& cache, const torch::Tensor& ids, int64_t new_tokens) {
  torch::Tensor fed = ids;
  std::vector<torch::Tensor> chosen;
  while (true) {
    const torch::Tensor logits = model->logits(model->hidden({fed}, cache).select(1, -1));
    chosen.push_back(logits.argmax(-1, /*keepdim=*/true));
    if (static_cast<int64_t>(chosen.size()) == new_tokens) return torch::cat(chosen, 1);
    fed = chosen.back();
  }
}

}  // namespace kvbook

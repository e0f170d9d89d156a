#include "common/generate.h"

namespace kvbook {

namespace {

/// Feeds the prompt, at most `chunk` tokens a forward, and returns the logits after its last token, [B, V].
torch::Tensor prefill(Gpt2& model, KVCache& cache, const torch::Tensor& input, int64_t chunk) {
  torch::Tensor hidden;
  for (const torch::Tensor& part : input.split(chunk, 1)) hidden = model->hidden({part}, cache);
  return model->logits(hidden.select(1, -1));
}

}  // namespace

// ANCHOR: generate
Generation generate(Gpt2& model, KVCache& cache, const torch::Tensor& input, const GenerateOptions& options) {
  check_ids(input, model->config().vocabulary);
  const int64_t T = input.size(1);
  const int64_t chunk = std::min(options.chunk.value_or(T), T);
  TORCH_CHECK_VALUE(chunk >= 1, "a chunk has at least 1 token, not ", chunk);
  GreedyDecoder decoder(options, T, room_after(cache.length() + T, model->config().context));

  torch::Tensor next = decoder.choose(prefill(model, cache, input, chunk));
  while (!decoder.finished()) {
    const torch::Tensor hidden = model->hidden({next}, cache);  // one token a row: [B, 1, E]
    next = decoder.choose(model->logits(hidden.select(1, -1)));
  }
  return decoder.result();
}
// ANCHOR_END: generate

}  // namespace kvbook

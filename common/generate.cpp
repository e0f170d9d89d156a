#include "common/generate.h"

namespace kvbook {

void check_ids(const torch::Tensor& ids, int64_t vocabulary) {
  TORCH_CHECK_VALUE(ids.defined() && ids.dim() == 2 && ids.scalar_type() == torch::kInt64, "ids must be int64 [B, T]");
  TORCH_CHECK_VALUE(ids.numel() > 0, "the prompt is empty: give at least one token");
  const torch::Tensor outside = ids.masked_select((ids < 0).logical_or(ids >= vocabulary));
  TORCH_CHECK_VALUE(outside.numel() == 0, "id ", outside.numel() > 0 ? outside[0].item<int64_t>() : 0,
                    " is not in the model's vocabulary of ", vocabulary, " (0 to ", vocabulary - 1, ")");
}

int64_t room_after(int64_t tokens, int64_t context) {
  TORCH_CHECK_INDEX(tokens <= context, "the input has ", tokens, " tokens and the model's context is ", context,
                    ": shorten it");
  return context - tokens + 1;
}

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
  GreedyDecoder decoder(options, T, room_after(cache.length() + T, model->config().context));

  torch::Tensor next = decoder.choose(prefill(model, cache, input, options.chunk.value_or(T)));
  while (!decoder.finished()) {
    const torch::Tensor hidden = model->hidden({next}, cache);  // one token a row: [B, 1, E]
    next = decoder.choose(model->logits(hidden.select(1, -1)));
  }
  return decoder.result();
}
// ANCHOR_END: generate

}  // namespace kvbook

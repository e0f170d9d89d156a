#include "chapters/03_masked_offsets/masked_offsets_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/axes.h"

namespace kvbook {

MaskedOffsetsCache::MaskedOffsetsCache(const ModelShape& shape)
    : KVCache(shape), keys_(shape.layers), values_(shape.layers) {}

// ANCHOR: mask
void MaskedOffsetsCache::on_begin(const Step& step) {
  visible_.reset();  // one query sees everything: no mask
  const int64_t T = step.ids.size(1);
  if (T > 1) visible_ = causal_mask(length(), T, step.ids.device());
}
// ANCHOR_END: mask

// ANCHOR: append
namespace {

/// Always memory of its own: `fresh` is a view into the qkv tensor and would keep all of that alive.
torch::Tensor append(const torch::Tensor& past, const torch::Tensor& fresh) {
  if (!past.defined()) return fresh.clone(at::MemoryFormat::Contiguous);
  return torch::cat({past, fresh}, kSeqAxis);
}

}  // namespace
// ANCHOR_END: append

// ANCHOR: update
KeyValues MaskedOffsetsCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  keys_[layer] = append(keys_[layer], key);
  values_[layer] = append(values_[layer], value);
  return {keys_[layer], values_[layer], visible_};
}
// ANCHOR_END: update

// ANCHOR: memory
void MaskedOffsetsCache::on_abandon() {  // some layers may have grown already
  for (auto* layers : {&keys_, &values_}) {
    for (torch::Tensor& tensor : *layers) {
      if (length() == 0) tensor.reset();
      if (tensor.defined()) tensor = tensor.narrow(kSeqAxis, 0, length());
    }
  }
}

void MaskedOffsetsCache::reset() {
  KVCache::reset();
  keys_.assign(shape().layers, {});
  values_.assign(shape().layers, {});
}

int64_t MaskedOffsetsCache::bytes() const {
  int64_t sum = 0;
  for (const auto* layers : {&keys_, &values_}) {
    for (const torch::Tensor& tensor : *layers) sum += tensor.defined() ? tensor.nbytes() : 0;
  }
  return sum;
}
// ANCHOR_END: memory

}  // namespace kvbook

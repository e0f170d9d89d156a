#include "chapters/02_cat_cache/cat_cache.h"

#include "common/axes.h"

namespace kvbook {

CatCache::CatCache(const ModelShape& shape) : KVCache(shape), keys_(shape.layers), values_(shape.layers) {}

// ANCHOR: on_begin
void CatCache::on_begin(const Step& step) {
  TORCH_CHECK_VALUE(length() == 0 || step.ids.size(1) == 1, "this cache holds ", length(), " tokens and cannot take ",
                    step.ids.size(1), " at once: feed them one by one, or use chapter 3 (03_masked_offsets)");
}
// ANCHOR_END: on_begin

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
KeyValues CatCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  keys_[layer] = append(keys_[layer], key);
  values_[layer] = append(values_[layer], value);

  torch::Tensor visible;  // one query sees everything: no mask
  const int64_t T = new_tokens();
  if (T > 1) visible = torch::ones({T, T}, options().dtype(torch::kBool)).tril();
  return {keys_[layer], values_[layer], visible};
}
// ANCHOR_END: update

// ANCHOR: memory
void CatCache::on_abandon() {  // some layers may have grown already
  for (auto* layers : {&keys_, &values_}) {
    for (torch::Tensor& tensor : *layers) {
      if (length() == 0) tensor.reset();
      if (tensor.defined()) tensor = tensor.narrow(kSeqAxis, 0, length());
    }
  }
}

void CatCache::reset() {
  KVCache::reset();
  keys_.assign(shape().layers, {});
  values_.assign(shape().layers, {});
}

int64_t CatCache::bytes() const {
  int64_t sum = 0;
  for (const auto* layers : {&keys_, &values_}) {
    for (const torch::Tensor& tensor : *layers) sum += tensor.defined() ? tensor.nbytes() : 0;
  }
  return sum;
}
// ANCHOR_END: memory

}  // namespace kvbook

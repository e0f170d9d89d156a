// The workshop's text, step 2: give everything back, after a reset and after a forward that failed. Chapter 2.
#pragma once

#include "common/axes.h"
#include "common/chapter.h"
#include "common/kv_cache.h"

namespace kvbook::step_2 {

static_assert(kSeamVersion == 1, "the seam means something else than when this file was begun: read common/kv_cache.h");

// ANCHOR: cache
class MyCache final : public KVCache {
 public:
  MyCache(const ModelShape& shape, const CacheOptions&) : KVCache(shape), keys_(shape.layers), values_(shape.layers) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    append(keys_[layer], key);
    append(values_[layer], value);
    const int64_t T = new_tokens();
    torch::Tensor visible;  // one query sees everything: no mask
    if (T > 1) visible = torch::ones({T, T}, options().dtype(torch::kBool)).tril();
    return {keys_[layer], values_[layer], visible};
  }

  void reset() override {
    KVCache::reset();
    keys_.assign(shape().layers, {});
    values_.assign(shape().layers, {});
  }

  int64_t bytes() const override {
    int64_t sum = 0;
    for (const auto* layers : {&keys_, &values_}) {
      for (const torch::Tensor& tensor : *layers) sum += tensor.defined() ? tensor.nbytes() : 0;
    }
    return sum;
  }

 protected:
  void on_abandon() override {
    for (auto* layers : {&keys_, &values_}) {
      for (torch::Tensor& tensor : *layers) {
        if (length() == 0) tensor.reset();
        if (tensor.defined()) tensor = tensor.narrow(kSeqAxis, 0, length());
      }
    }
  }

 private:
  static void append(torch::Tensor& past, const torch::Tensor& fresh) {
    past = past.defined() ? torch::cat({past, fresh}, kSeqAxis) : fresh.clone(at::MemoryFormat::Contiguous);
  }

  std::vector<torch::Tensor> keys_, values_;  // a layer each: [B, H, P, D]
};
// ANCHOR_END: cache

}  // namespace kvbook::step_2

// The workshop's text, step 3: a mask that knows the past. Chapter 3.
#pragma once

#include "common/axes.h"
#include "common/chapter.h"
#include "common/kv_cache.h"

namespace kvbook::step_3 {

static_assert(kSeamVersion == 1, "the seam means something else than when this file was begun: read common/kv_cache.h");

// ANCHOR: cache
class MyCache final : public KVCache {
 public:
  MyCache(const ModelShape& shape, const CacheOptions&) : KVCache(shape), keys_(shape.layers), values_(shape.layers) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    append(keys_[layer], key);
    append(values_[layer], value);
    return {keys_[layer], values_[layer], visible_};
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
  void on_begin(const Step& step) override {
    visible_.reset();  // one query sees everything: no mask
    const int64_t P = length(), T = step.ids.size(1);
    if (T > 1) visible_ = torch::ones({T, P + T}, torch::kBool).tril(P);  // true where j <= P + i
  }

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
  torch::Tensor visible_;                     // of the open forward: bool [T, P + T]
};
// ANCHOR_END: cache

}  // namespace kvbook::step_3

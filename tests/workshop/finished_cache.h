// The workshop's text, step 4, where it ends: buffers made once, written in place. Chapter 4.
#pragma once

#include "common/axes.h"
#include "common/chapter.h"
#include "common/kv_cache.h"

namespace kvbook::finished {

static_assert(kSeamVersion == 1, "the seam means something else than when this file was begun: read common/kv_cache.h");

// ANCHOR: cache
class MyCache final : public KVCache {
 public:
  MyCache(const ModelShape& shape, const CacheOptions& options) : KVCache(shape), capacity_(options.capacity) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    if (!keys_.defined()) {
      const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, capacity_, shape().head_size};
      keys_ = torch::empty(size, options());
      values_ = torch::empty(size, options());
    }
    return {written(keys_[layer], key), written(values_[layer], value), visible_};
  }

  void reset() override {
    KVCache::reset();
    release();
  }

  int64_t bytes() const override { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

  std::vector<int64_t> slots(int64_t row = 0) const override {
    std::vector<int64_t> positions = KVCache::slots(row);
    if (keys_.defined()) positions.resize(capacity_, kEmptySlot);
    return positions;
  }

 protected:
  void on_begin(const Step& step) override {
    const int64_t P = length(), T = step.ids.size(1);
    TORCH_CHECK_INDEX(P + T <= capacity_, "no room: ", P, " of ", capacity_, " slots are taken, and ", T, " come");
    visible_.reset();                                                     // one query sees everything: no mask
    if (T > 1) visible_ = torch::ones({T, P + T}, torch::kBool).tril(P);  // true where j <= P + i
  }

  void on_abandon() override {
    if (length() == 0) release();  // else what was written lies past length(), and the next forward overwrites it
  }

 private:
  /// Copies the new tokens into slots [P, P + T) of one layer, and returns a view of the slots up to there.
  torch::Tensor written(const torch::Tensor& layer_slots, const torch::Tensor& fresh) const {
    const int64_t P = length(), T = new_tokens();
    layer_slots.narrow(kSeqAxis, P, T).copy_(fresh);
    return layer_slots.narrow(kSeqAxis, 0, P + T);
  }

  void release() {
    keys_.reset();
    values_.reset();
  }

  int64_t capacity_;             // C
  torch::Tensor keys_, values_;  // [L, B, H, C, D], undefined before the first update
  torch::Tensor visible_;        // of the open forward: bool [T, P + T]
};
// ANCHOR_END: cache

}  // namespace kvbook::finished

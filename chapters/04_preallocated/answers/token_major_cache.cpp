#include "chapters/04_preallocated/answers/token_major_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/axes.h"

namespace kvbook {

TokenMajorCache::TokenMajorCache(const ModelShape& shape, int64_t capacity) : KVCache(shape), capacity_(capacity) {
  TORCH_CHECK_VALUE(capacity > 0, "the capacity must be at least 1, not ", capacity);
}

void TokenMajorCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= capacity_, "the cache holds ", P, " of ", capacity_, " tokens and has no room for ", T,
                    " more: give it a larger capacity");
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

// ANCHOR: update
KeyValues TokenMajorCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) {
    const std::vector<int64_t> size = {shape().layers, rows(), capacity_, shape().kv_heads, shape().head_size};
    keys_ = torch::empty(size, options());
    values_ = torch::empty(size, options());
  }
  const int64_t P = length(), T = new_tokens();
  const torch::Tensor keys = keys_[layer].transpose(kHeadAxis, kSeqAxis);  // a view of [B, C, H, D] as [B, H, C, D]
  const torch::Tensor values = values_[layer].transpose(kHeadAxis, kSeqAxis);
  keys.narrow(kSeqAxis, P, T).copy_(key);
  values.narrow(kSeqAxis, P, T).copy_(value);
  return {keys.narrow(kSeqAxis, 0, P + T), values.narrow(kSeqAxis, 0, P + T), visible_};
}
// ANCHOR_END: update

void TokenMajorCache::on_abandon() {
  if (length() > 0) return;
  keys_.reset();
  values_.reset();
}

void TokenMajorCache::reset() {
  KVCache::reset();
  keys_.reset();
  values_.reset();
}

int64_t TokenMajorCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

}  // namespace kvbook

#include "chapters/04_preallocated/preallocated_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/axes.h"

namespace kvbook {

PreallocatedCache::PreallocatedCache(const ModelShape& shape, int64_t capacity) : KVCache(shape), capacity_(capacity) {
  TORCH_CHECK_VALUE(capacity > 0, "the capacity must be at least 1, not ", capacity);
}

// ANCHOR: on_begin
void PreallocatedCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= capacity_, "the cache holds ", P, " of ", capacity_, " tokens and has no room for ", T,
                    " more: give it a larger capacity");
  visible_.reset();  // one query sees everything: no mask
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}
// ANCHOR_END: on_begin

// ANCHOR: update
KeyValues PreallocatedCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) {
    const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, capacity_, shape().head_size};
    keys_ = torch::empty(size, options());  // empty: a slot is never visible before it is written
    values_ = torch::empty(size, options());
  }
  const int64_t P = length(), T = new_tokens();
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, C, D]
  keys.narrow(kSeqAxis, P, T).copy_(key);
  values.narrow(kSeqAxis, P, T).copy_(value);
  return {keys.narrow(kSeqAxis, 0, P + T), values.narrow(kSeqAxis, 0, P + T), visible_};
}
// ANCHOR_END: update

// ANCHOR: memory
void PreallocatedCache::on_abandon() {
  if (length() > 0) return;  // what was written lies past length(): the next forward overwrites it
  keys_.reset();             // the next first key may have another batch size or dtype
  values_.reset();
}

void PreallocatedCache::reset() {
  KVCache::reset();
  keys_.reset();
  values_.reset();
}

int64_t PreallocatedCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> PreallocatedCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (keys_.defined()) positions.resize(capacity_, kEmptySlot);
  return positions;
}
// ANCHOR_END: memory

}  // namespace kvbook

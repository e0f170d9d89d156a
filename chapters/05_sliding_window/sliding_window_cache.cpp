#include "chapters/05_sliding_window/sliding_window_cache.h"

#include "common/axes.h"

namespace kvbook {

// ANCHOR: window_mask
torch::Tensor window_mask(int64_t h, int64_t T, int64_t W, torch::Device device) {
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const torch::Tensor query = torch::arange(h, h + T, integers).unsqueeze(1);  // the column of each query's own key
  const torch::Tensor key = torch::arange(h + T, integers).unsqueeze(0);
  return (key <= query).logical_and(key > query - W);
}
// ANCHOR_END: window_mask

SlidingWindowCache::SlidingWindowCache(const ModelShape& shape, int64_t window)
    : KVCache(shape), window_(std::min(window, shape.context)) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
}

// ANCHOR: on_begin
void SlidingWindowCache::on_begin(const Step& step) {
  const int64_t T = step.ids.size(1);
  visible_.reset();  // one query sees all h + 1 <= W keys: no mask
  if (T > 1) visible_ = window_mask(kept(), T, window_, step.ids.device());
}
// ANCHOR_END: on_begin

// ANCHOR: update
KeyValues SlidingWindowCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) allocate();
  const int64_t h = kept(), T = new_tokens();
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, W, D]
  if (h + T <= window_) {                                            // there is room: write in place, as in chapter 4
    keys.narrow(kSeqAxis, h, T).copy_(key);
    values.narrow(kSeqAxis, h, T).copy_(value);
    return {keys.narrow(kSeqAxis, 0, h + T), values.narrow(kSeqAxis, 0, h + T), visible_};
  }
  // Attend first, evict after: the chunk's first queries still see old keys that its last ones do not.
  staged_keys_.resize(shape().layers);
  staged_values_.resize(shape().layers);
  staged_keys_[layer] = torch::cat({keys.narrow(kSeqAxis, 0, h), key}, kSeqAxis);
  staged_values_[layer] = torch::cat({values.narrow(kSeqAxis, 0, h), value}, kSeqAxis);
  return {staged_keys_[layer], staged_values_[layer], visible_};
}
// ANCHOR_END: update

// ANCHOR: on_commit
void SlidingWindowCache::on_commit() {
  const int64_t held = kept() + new_tokens();        // h + T
  const int64_t keep = std::min(held, window_ - 1);  // what the next query may still see
  const int64_t evicted = held - keep;
  // Moves the last `keep` slots to the front. Through scratch, since copy_ between overlapping views is undefined; and
  // scratch is made beforehand, since an allocation that fails here would leave some layers shifted and others not.
  const auto shift = [&](const torch::Tensor& slots) {
    scratch_.narrow(kSeqAxis, 0, keep).copy_(slots.narrow(kSeqAxis, evicted, keep));
    slots.narrow(kSeqAxis, 0, keep).copy_(scratch_.narrow(kSeqAxis, 0, keep));
  };
  for (int64_t layer = 0; evicted > 0 && layer < shape().layers; ++layer) {
    const torch::Tensor keys = keys_[layer], values = values_[layer];
    if (staged_keys_.empty()) {
      shift(keys);
      shift(values);
    } else {
      keys.narrow(kSeqAxis, 0, keep).copy_(staged_keys_[layer].narrow(kSeqAxis, evicted, keep));
      values.narrow(kSeqAxis, 0, keep).copy_(staged_values_[layer].narrow(kSeqAxis, evicted, keep));
    }
  }
  staged_keys_.clear();
  staged_values_.clear();
}
// ANCHOR_END: on_commit

// ANCHOR: memory
void SlidingWindowCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, window_, shape().head_size};
  keys_ = torch::empty(size, options());
  values_ = torch::empty(size, options());
  scratch_ = torch::empty_like(keys_[0]);
}

void SlidingWindowCache::release() {
  keys_.reset();
  values_.reset();
  scratch_.reset();
}

void SlidingWindowCache::on_abandon() {  // the slots past kept() do not count, so there is nothing to undo in them
  staged_keys_.clear();
  staged_values_.clear();
  if (length() == 0) release();
}

void SlidingWindowCache::reset() {
  KVCache::reset();
  release();
}

int64_t SlidingWindowCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> SlidingWindowCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  positions.erase(positions.begin(), positions.end() - kept());
  if (keys_.defined()) positions.resize(window_, kEmptySlot);
  return positions;
}
// ANCHOR_END: memory

}  // namespace kvbook

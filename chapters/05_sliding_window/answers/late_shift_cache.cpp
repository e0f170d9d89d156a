#include "chapters/05_sliding_window/answers/late_shift_cache.h"

#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "common/axes.h"

namespace kvbook {

LateShiftCache::LateShiftCache(const ModelShape& shape, int64_t window, int64_t spare)
    : KVCache(shape), window_(std::min(window, shape.context)), spare_(spare) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
}

void LateShiftCache::on_begin(const Step& step) {
  const int64_t T = step.ids.size(1);
  visible_.reset();
  if (T > 1) visible_ = window_mask(kept(), T, window_, step.ids.device());
}

// ANCHOR: update
KeyValues LateShiftCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) allocate();
  const int64_t h = kept(), T = new_tokens();
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, W + k, D]
  if (filled_ + T <= window_ + spare_) {
    keys.narrow(kSeqAxis, filled_, T).copy_(key);
    values.narrow(kSeqAxis, filled_, T).copy_(value);
    return {keys.narrow(kSeqAxis, filled_ - h, h + T), values.narrow(kSeqAxis, filled_ - h, h + T), visible_};
  }
  staged_keys_.resize(shape().layers);
  staged_values_.resize(shape().layers);
  staged_keys_[layer] = torch::cat({keys.narrow(kSeqAxis, filled_ - h, h), key}, kSeqAxis);
  staged_values_[layer] = torch::cat({values.narrow(kSeqAxis, filled_ - h, h), value}, kSeqAxis);
  return {staged_keys_[layer], staged_values_[layer], visible_};
}
// ANCHOR_END: update

// ANCHOR: on_commit
void LateShiftCache::on_commit() {
  const int64_t keep = std::min(kept() + new_tokens(), window_ - 1);  // what the next query may still see
  if (staged_keys_.empty()) {
    filled_ += new_tokens();
    if (filled_ < window_ + spare_) return;  // there is room for another token: nothing moves
  }
  const auto to_the_front = [&](const torch::Tensor& slots, const torch::Tensor& from) {  // its last `keep` tokens
    const torch::Tensor scratch = scratch_.narrow(kSeqAxis, 0, keep);                     // the two places may overlap
    scratch.copy_(from.narrow(kSeqAxis, from.size(kSeqAxis) - keep, keep));
    slots.narrow(kSeqAxis, 0, keep).copy_(scratch);
  };
  for (int64_t layer = 0; layer < shape().layers; ++layer) {
    const bool staged = !staged_keys_.empty();
    to_the_front(keys_[layer], staged ? staged_keys_[layer] : keys_[layer]);
    to_the_front(values_[layer], staged ? staged_values_[layer] : values_[layer]);
  }
  filled_ = keep;
  staged_keys_.clear();
  staged_values_.clear();
}
// ANCHOR_END: on_commit

void LateShiftCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, window_ + spare_, shape().head_size};
  keys_ = torch::empty(size, options());
  values_ = torch::empty(size, options());
  scratch_ = torch::empty({rows(), shape().kv_heads, window_, shape().head_size}, options());
}

void LateShiftCache::release() {
  filled_ = 0;
  keys_.reset();
  values_.reset();
  scratch_.reset();
}

void LateShiftCache::on_abandon() {  // filled_ has not moved, so there is nothing to undo in the slots
  staged_keys_.clear();
  staged_values_.clear();
  if (length() == 0) release();
}

void LateShiftCache::on_truncate() { filled_ = length(); }  // nothing was shifted yet, or it would be refused

void LateShiftCache::reset() {
  KVCache::reset();
  release();
}

int64_t LateShiftCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> LateShiftCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  positions.erase(positions.begin(), positions.end() - kept());
  if (!keys_.defined()) return positions;
  positions.insert(positions.begin(), filled_ - kept(), kEmptySlot);
  positions.resize(window_ + spare_, kEmptySlot);
  return positions;
}

}  // namespace kvbook

#include "chapters/06_ring_buffer/answers/ordered_ring_cache.h"

#include <algorithm>
#include <numeric>

#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "common/axes.h"

namespace kvbook {

OrderedRingCache::OrderedRingCache(const ModelShape& shape, int64_t window)
    : KVCache(shape), window_(std::min(window, shape.context)) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
}

void OrderedRingCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1), h = kept();
  stages_ = T > 1 && P + T > window_;
  if (!stages_) oldest_ = std::max(oldest_, P + T - window_);  // overwritten from here on, even if abandoned
  columns_.resize(h + T);
  std::iota(columns_.begin(), columns_.end(), P - h);
  visible_.reset();
  if (T > 1) visible_ = window_mask(h, T, window_, step.ids.device());  // chapter 5's
}

// ANCHOR: update
KeyValues OrderedRingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) allocate();
  const int64_t P = length(), T = new_tokens(), h = kept();
  const int64_t first = (P - h) % window_;                           // the slot in which the run begins
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, 2W, D]
  if (!stages_) {
    store(keys, key, P);
    store(values, value, P);
    return {keys.narrow(kSeqAxis, first, h + T), values.narrow(kSeqAxis, first, h + T), visible_};
  }
  staged_keys_.resize(shape().layers);
  staged_values_.resize(shape().layers);
  staged_keys_[layer] = torch::cat({keys.narrow(kSeqAxis, first, h), key}, kSeqAxis);
  staged_values_[layer] = torch::cat({values.narrow(kSeqAxis, first, h), value}, kSeqAxis);
  return {staged_keys_[layer], staged_values_[layer], visible_};
}

void OrderedRingCache::store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const {
  const int64_t tokens = chunk.size(kSeqAxis);
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = (first + done) % window_, run = std::min(tokens - done, window_ - slot);
    const torch::Tensor part = chunk.narrow(kSeqAxis, done, run);
    slots.narrow(kSeqAxis, slot, run).copy_(part);
    slots.narrow(kSeqAxis, slot + window_, run).copy_(part);
    done += run;
  }
}
// ANCHOR_END: update

void OrderedRingCache::on_commit() {
  const int64_t P = length(), T = new_tokens();
  if (stages_) {
    const int64_t last = std::min(T, window_);
    for (int64_t layer = 0; layer < shape().layers; ++layer) {
      store(keys_[layer], staged_keys_[layer].narrow(kSeqAxis, -last, last), P + T - last);
      store(values_[layer], staged_values_[layer].narrow(kSeqAxis, -last, last), P + T - last);
    }
  }
  oldest_ = std::max(oldest_, P + T - window_);
  close();
}

int64_t OrderedRingCache::can_give_back(int64_t row) const {
  const int64_t P = length(row), held = P - oldest_;
  return oldest_ == 0 ? P : std::max<int64_t>(0, held - (window_ - 1));  // the next query needs W - 1 of them
}

void OrderedRingCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, 2 * window_, shape().head_size};
  keys_ = torch::empty(size, options());
  values_ = torch::empty(size, options());
}

void OrderedRingCache::close() {
  staged_keys_.clear();
  staged_values_.clear();
  columns_.clear();
  visible_.reset();
}

void OrderedRingCache::release() {
  oldest_ = 0;
  keys_.reset();
  values_.reset();
}

void OrderedRingCache::on_abandon() {  // what was overwritten is before oldest_ since begin
  close();
  if (length() == 0) release();
}

void OrderedRingCache::reset() {
  KVCache::reset();
  release();
}

int64_t OrderedRingCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> OrderedRingCache::slots(int64_t row) const {
  length(row);  // refuses a row that is not there
  if (!keys_.defined()) return {};
  std::vector<int64_t> positions(2 * window_, kEmptySlot);
  std::iota(positions.begin() + oldest_ % window_, positions.begin() + oldest_ % window_ + length() - oldest_, oldest_);
  return positions;
}

std::vector<int64_t> OrderedRingCache::columns(int64_t row) const {
  length(row);
  return columns_;
}

}  // namespace kvbook

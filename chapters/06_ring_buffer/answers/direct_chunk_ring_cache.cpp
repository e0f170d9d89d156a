#include "chapters/06_ring_buffer/answers/direct_chunk_ring_cache.h"

#include <algorithm>

#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "common/axes.h"

namespace kvbook {

DirectChunkRingCache::DirectChunkRingCache(const ModelShape& shape, int64_t window, int64_t spare)
    : KVCache(shape), window_(std::min(window, shape.context)), slots_(window_ + spare) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
}

// ANCHOR: on_begin
void DirectChunkRingCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1), R = slots_, k = R - window_;
  stages_ = T > k + 1 && P + T > R;                      // its last tokens lie where its first queries still look
  if (!stages_) oldest_ = std::max(oldest_, P + T - R);  // overwritten from here on, even if this forward is abandoned

  columns_ = positions();
  columns_.resize(std::min(stages_ ? P : P + T, R));
  for (int64_t position = P; position < P + T; ++position) {
    if (stages_)
      columns_.push_back(position);
    else
      columns_[slot_of(position)] = position;
  }
  const auto sees = [&](int64_t position) { return position != kEmptySlot && position > P - window_; };
  visible_.reset();
  if (T > 1 || !std::all_of(columns_.begin(), columns_.end(), sees)) {
    visible_ = ring_mask(columns_, P, T, window_, step.ids.device());
  }
}
// ANCHOR_END: on_begin

KeyValues DirectChunkRingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) allocate();
  const int64_t P = length(), T = new_tokens();
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, R, D]
  if (!stages_) {
    store(keys, key, P);
    store(values, value, P);
    const int64_t S = std::min(P + T, slots_);
    return {keys.narrow(kSeqAxis, 0, S), values.narrow(kSeqAxis, 0, S), visible_};
  }
  const int64_t held = std::min(P, slots_);
  staged_keys_.resize(shape().layers);
  staged_values_.resize(shape().layers);
  staged_keys_[layer] = torch::cat({keys.narrow(kSeqAxis, 0, held), key}, kSeqAxis);
  staged_values_[layer] = torch::cat({values.narrow(kSeqAxis, 0, held), value}, kSeqAxis);
  return {staged_keys_[layer], staged_values_[layer], visible_};
}

void DirectChunkRingCache::store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const {
  const int64_t tokens = chunk.size(kSeqAxis);
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = slot_of(first + done), run = std::min(tokens - done, slots_ - slot);
    slots.narrow(kSeqAxis, slot, run).copy_(chunk.narrow(kSeqAxis, done, run));
    done += run;
  }
}

void DirectChunkRingCache::on_commit() {
  const int64_t P = length(), T = new_tokens();
  if (stages_) {
    const int64_t kept = std::min(T, slots_);
    for (int64_t layer = 0; layer < shape().layers; ++layer) {
      store(keys_[layer], staged_keys_[layer].narrow(kSeqAxis, -kept, kept), P + T - kept);
      store(values_[layer], staged_values_[layer].narrow(kSeqAxis, -kept, kept), P + T - kept);
    }
  }
  oldest_ = std::max(oldest_, P + T - slots_);
  close();
}

// ANCHOR: can_give_back
int64_t DirectChunkRingCache::can_give_back(int64_t row) const {
  const int64_t P = length(row), held = P - oldest_;
  return oldest_ == 0 ? P : std::max<int64_t>(0, held - (window_ - 1));  // the next query needs W - 1 of them
}
// ANCHOR_END: can_give_back

void DirectChunkRingCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, slots_, shape().head_size};
  keys_ = torch::empty(size, options());
  values_ = torch::empty(size, options());
}

void DirectChunkRingCache::close() {
  staged_keys_.clear();
  staged_values_.clear();
  columns_.clear();
  visible_.reset();
}

void DirectChunkRingCache::release() {
  oldest_ = 0;
  keys_.reset();
  values_.reset();
}

void DirectChunkRingCache::on_abandon() {  // what was overwritten is before oldest_ since begin
  close();
  if (length() == 0) release();
}

void DirectChunkRingCache::reset() {
  KVCache::reset();
  release();
}

int64_t DirectChunkRingCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> DirectChunkRingCache::positions() const {
  std::vector<int64_t> held(slots_, kEmptySlot);
  for (int64_t position = oldest_; position < length(); ++position) held[slot_of(position)] = position;
  return held;
}

std::vector<int64_t> DirectChunkRingCache::slots(int64_t row) const {
  length(row);  // refuses a row that is not there
  return keys_.defined() ? positions() : std::vector<int64_t>();
}

std::vector<int64_t> DirectChunkRingCache::columns(int64_t row) const {
  length(row);
  return columns_;
}

}  // namespace kvbook

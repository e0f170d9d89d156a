#include "chapters/06_ring_buffer/ring_buffer_cache.h"

#include <algorithm>

#include "common/axes.h"

namespace kvbook {

// ANCHOR: ring_mask
torch::Tensor ring_mask(const std::vector<int64_t>& columns, int64_t P, int64_t T, int64_t W, torch::Device device) {
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const torch::Tensor query = torch::arange(P, P + T, integers).unsqueeze(1);  // [T, 1]
  const torch::Tensor key = torch::tensor(columns, integers).unsqueeze(0);     // [1, S]
  return (key <= query).logical_and(key > query - W).logical_and(key != kEmptySlot);
}
// ANCHOR_END: ring_mask

RingBufferCache::RingBufferCache(const ModelShape& shape, int64_t window, int64_t spare)
    : KVCache(shape), window_(std::min(window, shape.context)), slots_(window_ + spare) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
  positions_.assign(slots_, kEmptySlot);
}

// ANCHOR: on_begin
void RingBufferCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1), R = slots_;
  stages_ = T > 1 && P + T > R;                     // its last tokens may lie where its first queries still look
  if (T == 1) positions_[slot_of(P)] = kEmptySlot;  // overwritten from here on, even if this forward is abandoned

  columns_.assign(positions_.begin(), positions_.begin() + std::min(stages_ ? P : P + T, R));
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

// ANCHOR: update
KeyValues RingBufferCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
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
// ANCHOR_END: update

// ANCHOR: store
/// Writes the tokens of `chunk`, the first of which stands at position `first`, into their slots: a run of neighbours,
/// and a second one where the chunk goes over the ring's end.
void RingBufferCache::store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const {
  const int64_t tokens = chunk.size(kSeqAxis);
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = slot_of(first + done), run = std::min(tokens - done, slots_ - slot);
    slots.narrow(kSeqAxis, slot, run).copy_(chunk.narrow(kSeqAxis, done, run));
    done += run;
  }
}

void RingBufferCache::on_commit() {
  const int64_t P = length(), T = new_tokens();
  if (stages_) {
    const int64_t kept = std::min(T, slots_), first = P + T - kept;
    const auto last = [&](const torch::Tensor& staged) { return staged.narrow(kSeqAxis, -kept, kept); };
    for (int64_t layer = 0; layer < shape().layers; ++layer) {
      store(keys_[layer], last(staged_keys_[layer]), first);
      store(values_[layer], last(staged_values_[layer]), first);
    }
  }
  for (int64_t position = P; position < P + T; ++position) positions_[slot_of(position)] = position;
  close();
}
// ANCHOR_END: store

// ANCHOR: truncate
int64_t RingBufferCache::can_give_back(int64_t row) const {
  const int64_t P = length(row);
  int64_t held = 0;  // how many of the last positions still lie in their slots, without a gap
  while (held < P && positions_[slot_of(P - 1 - held)] == P - 1 - held) ++held;
  return held == P ? P : std::max<int64_t>(0, held - (window_ - 1));  // the next query needs W - 1 of them
}

void RingBufferCache::on_truncate() {
  const auto taken_back = [&](int64_t position) { return position >= length(); };
  std::replace_if(positions_.begin(), positions_.end(), taken_back, kEmptySlot);
}
// ANCHOR_END: truncate

// ANCHOR: memory
void RingBufferCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, slots_, shape().head_size};
  keys_ = torch::empty(size, options());  // empty: only slots that were written are ever returned
  values_ = torch::empty(size, options());
}

void RingBufferCache::close() {
  staged_keys_.clear();
  staged_values_.clear();
  columns_.clear();
  visible_.reset();
}

void RingBufferCache::release() {
  positions_.assign(slots_, kEmptySlot);
  keys_.reset();
  values_.reset();
}

void RingBufferCache::on_abandon() {  // what was written has no position, so there is nothing to undo in the slots
  close();
  if (length() == 0) release();
}

void RingBufferCache::reset() {
  KVCache::reset();
  release();
}

int64_t RingBufferCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> RingBufferCache::slots(int64_t row) const {
  length(row);  // refuses a row that is not there
  return keys_.defined() ? positions_ : std::vector<int64_t>();
}

std::vector<int64_t> RingBufferCache::columns(int64_t row) const {
  length(row);
  return columns_;
}
// ANCHOR_END: memory

}  // namespace kvbook

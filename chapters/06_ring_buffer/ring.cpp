#include "chapters/06_ring_buffer/ring.h"

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

Ring::Ring(int64_t window, int64_t spare) : window_(window), slots_(window + spare) {
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
  clear();
}

// ANCHOR: open
void Ring::open(int64_t P, int64_t T, torch::Device device) {
  const int64_t R = slots_;
  first_ = P;
  tokens_ = T;
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
    visible_ = ring_mask(columns_, P, T, window_, device);
  }
}
// ANCHOR_END: open

// ANCHOR: update
KeyValues Ring::update(RingLayer& layer, const torch::Tensor& key, const torch::Tensor& value) const {
  if (!stages_) {
    store(layer.keys, key, first_);
    store(layer.values, value, first_);
    const int64_t S = std::min(first_ + tokens_, slots_);
    return {layer.keys.narrow(kSeqAxis, 0, S), layer.values.narrow(kSeqAxis, 0, S), visible_};
  }
  const int64_t held = std::min(first_, slots_);
  layer.staged_keys = torch::cat({layer.keys.narrow(kSeqAxis, 0, held), key}, kSeqAxis);
  layer.staged_values = torch::cat({layer.values.narrow(kSeqAxis, 0, held), value}, kSeqAxis);
  return {layer.staged_keys, layer.staged_values, visible_};
}
// ANCHOR_END: update

// ANCHOR: store
/// Writes the tokens of `chunk`, the first of which stands at position `first`, into their slots: a run of neighbours,
/// and a second one where the chunk goes over the ring's end.
void Ring::store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const {
  const int64_t tokens = chunk.size(kSeqAxis);
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = slot_of(first + done), run = std::min(tokens - done, slots_ - slot);
    slots.narrow(kSeqAxis, slot, run).copy_(chunk.narrow(kSeqAxis, done, run));
    done += run;
  }
}

void Ring::store_staged(RingLayer& layer) const {
  if (!stages_) return;
  const int64_t kept = std::min(tokens_, slots_), first = first_ + tokens_ - kept;
  store(layer.keys, layer.staged_keys.narrow(kSeqAxis, -kept, kept), first);
  store(layer.values, layer.staged_values.narrow(kSeqAxis, -kept, kept), first);
  layer.unstage();
}

void Ring::commit() {
  for (int64_t position = first_; position < first_ + tokens_; ++position) positions_[slot_of(position)] = position;
  abandon();
}
// ANCHOR_END: store

// ANCHOR: truncate
int64_t Ring::can_give_back(int64_t P) const {
  int64_t held = 0;  // how many of the last positions still lie in their slots, without a gap
  while (held < P && positions_[slot_of(P - 1 - held)] == P - 1 - held) ++held;
  return held == P ? P : std::max<int64_t>(0, held - (window_ - 1));  // the next query needs W - 1 of them
}

void Ring::truncate(int64_t length) {
  const auto taken_back = [&](int64_t position) { return position >= length; };
  std::replace_if(positions_.begin(), positions_.end(), taken_back, kEmptySlot);
}
// ANCHOR_END: truncate

void Ring::abandon() {
  stages_ = false;
  columns_.clear();
  visible_.reset();
}

void Ring::clear() { positions_.assign(slots_, kEmptySlot); }

}  // namespace kvbook

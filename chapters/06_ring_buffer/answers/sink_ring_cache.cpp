#include "chapters/06_ring_buffer/answers/sink_ring_cache.h"

#include <algorithm>

#include "common/axes.h"

namespace kvbook {

// ANCHOR: mask
torch::Tensor sink_ring_mask(const std::vector<int64_t>& columns, int64_t P, int64_t T, int64_t sinks, int64_t W,
                             torch::Device device) {
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const torch::Tensor query = torch::arange(P, P + T, integers).unsqueeze(1);  // [T, 1]
  const torch::Tensor key = torch::tensor(columns, integers).unsqueeze(0);     // [1, S]
  const torch::Tensor sink_or_near = (key < sinks).logical_or(key > query - W);
  return (key <= query).logical_and(sink_or_near).logical_and(key != kEmptySlot);
}
// ANCHOR_END: mask

SinkRingCache::SinkRingCache(const ModelShape& shape, int64_t sinks, int64_t window)
    : KVCache(shape),
      sinks_(std::min(sinks, shape.context)),
      window_(std::min(window, shape.context)),
      oldest_(sinks_) {
  TORCH_CHECK_VALUE(sinks >= 0, "there cannot be ", sinks, " sinks");
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
}

// ANCHOR: slot_of
int64_t SinkRingCache::slot_of(int64_t position) const {
  return position < sinks_ ? position : sinks_ + (position - sinks_) % window_;
}
// ANCHOR_END: slot_of

// ANCHOR: on_begin
void SinkRingCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  stages_ = T > 1 && P + T > slot_count();
  if (!stages_) oldest_ = std::max(oldest_, P + T - window_);  // overwritten from here on, even if abandoned

  columns_ = positions();
  columns_.resize(std::min(stages_ ? P : P + T, slot_count()));
  for (int64_t position = P; position < P + T; ++position) {
    if (stages_)
      columns_.push_back(position);
    else
      columns_[slot_of(position)] = position;
  }
  const auto sees = [&](int64_t position) {
    return position != kEmptySlot && (position < sinks_ || position > P - window_);
  };
  visible_.reset();
  if (T > 1 || !std::all_of(columns_.begin(), columns_.end(), sees)) {
    visible_ = sink_ring_mask(columns_, P, T, sinks_, window_, step.ids.device());
  }
}
// ANCHOR_END: on_begin

KeyValues SinkRingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) allocate();
  const int64_t P = length(), T = new_tokens();
  const torch::Tensor keys = keys_[layer], values = values_[layer];  // views: [B, H, s + W, D]
  if (!stages_) {
    store(keys, key, P);
    store(values, value, P);
    const int64_t S = std::min(P + T, slot_count());
    return {keys.narrow(kSeqAxis, 0, S), values.narrow(kSeqAxis, 0, S), visible_};
  }
  const int64_t held = std::min(P, slot_count());
  staged_keys_.resize(shape().layers);
  staged_values_.resize(shape().layers);
  staged_keys_[layer] = torch::cat({keys.narrow(kSeqAxis, 0, held), key}, kSeqAxis);
  staged_values_[layer] = torch::cat({values.narrow(kSeqAxis, 0, held), value}, kSeqAxis);
  return {staged_keys_[layer], staged_values_[layer], visible_};
}

void SinkRingCache::store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const {
  const int64_t tokens = chunk.size(kSeqAxis);
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = slot_of(first + done), run = std::min(tokens - done, slot_count() - slot);
    slots.narrow(kSeqAxis, slot, run).copy_(chunk.narrow(kSeqAxis, done, run));
    done += run;
  }
}

// ANCHOR: on_commit
void SinkRingCache::on_commit() {
  const int64_t P = length(), T = new_tokens();
  if (stages_) {  // then P + T > s + W, so the chunk's last W tokens are no sinks
    const int64_t sinks = std::clamp<int64_t>(sinks_ - P, 0, T), last = std::min(T, window_);
    const auto keep = [&](const torch::Tensor& slots, const torch::Tensor& staged) {
      const torch::Tensor chunk = staged.narrow(kSeqAxis, -T, T);
      store(slots, chunk.narrow(kSeqAxis, 0, sinks), P);
      store(slots, chunk.narrow(kSeqAxis, T - last, last), P + T - last);
    };
    for (int64_t layer = 0; layer < shape().layers; ++layer) {
      keep(keys_[layer], staged_keys_[layer]);
      keep(values_[layer], staged_values_[layer]);
    }
  }
  oldest_ = std::max(oldest_, P + T - window_);
  close();
}
// ANCHOR_END: on_commit

int64_t SinkRingCache::can_give_back(int64_t row) const {
  const int64_t P = length(row), held = P - oldest_;
  return oldest_ == sinks_ ? P : std::max<int64_t>(0, held - (window_ - 1));  // the next query needs W - 1 of them
}

void SinkRingCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, slot_count(), shape().head_size};
  keys_ = torch::empty(size, options());
  values_ = torch::empty(size, options());
}

void SinkRingCache::close() {
  staged_keys_.clear();
  staged_values_.clear();
  columns_.clear();
  visible_.reset();
}

void SinkRingCache::release() {
  oldest_ = sinks_;
  keys_.reset();
  values_.reset();
}

void SinkRingCache::on_abandon() {  // what was overwritten is before oldest_ since begin
  close();
  if (length() == 0) release();
}

void SinkRingCache::reset() {
  KVCache::reset();
  release();
}

int64_t SinkRingCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> SinkRingCache::positions() const {
  std::vector<int64_t> held(slot_count(), kEmptySlot);
  for (int64_t position = 0; position < length(); ++position) {
    if (position < sinks_ || position >= oldest_) held[slot_of(position)] = position;
  }
  return held;
}

std::vector<int64_t> SinkRingCache::slots(int64_t row) const {
  length(row);  // refuses a row that is not there
  return keys_.defined() ? positions() : std::vector<int64_t>();
}

std::vector<int64_t> SinkRingCache::columns(int64_t row) const {
  length(row);
  return columns_;
}

}  // namespace kvbook

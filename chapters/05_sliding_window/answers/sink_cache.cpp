#include "chapters/05_sliding_window/answers/sink_cache.h"

#include "common/axes.h"

namespace kvbook {

// ANCHOR: mask
torch::Tensor sink_mask(const torch::Tensor& key_positions, int64_t P, int64_t T, int64_t sinks, int64_t W) {
  const torch::Tensor query = torch::arange(P, P + T, key_positions.options()).unsqueeze(1);  // [T, 1]
  const torch::Tensor key = key_positions.unsqueeze(0);                                       // [1, S]
  return (key <= query).logical_and((key < sinks).logical_or(key > query - W));
}
// ANCHOR_END: mask

SinkCache::SinkCache(const ModelShape& shape, int64_t sinks, int64_t window)
    : KVCache(shape), sinks_(sinks), window_(window), keys_(shape.layers), values_(shape.layers) {
  TORCH_CHECK_VALUE(sinks >= 0, "there cannot be ", sinks, " sinks");
  TORCH_CHECK_VALUE(window > 0, "the window must be at least 1, not ", window);
}

// ANCHOR: forward
std::vector<int64_t> SinkCache::slots(int64_t row) const {
  std::vector<int64_t> held;
  for (const int64_t position : KVCache::slots(row)) {
    if (sees(length(), position)) held.push_back(position);  // what the next query sees
  }
  return held;
}

void SinkCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  joined_keys_.assign(shape().layers, {});
  joined_values_.assign(shape().layers, {});
  joined_positions_ = slots();
  for (int64_t position = P; position < P + T; ++position) joined_positions_.push_back(position);
  visible_.reset();  // one query sees all that is held: no mask
  if (T > 1) visible_ = sink_mask(torch::tensor(joined_positions_, step.ids.options()), P, T, sinks_, window_);
}

KeyValues SinkCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  const bool first = !keys_[layer].defined();  // then there is nothing to join: a clone, as in chapter 2
  const int64_t held = static_cast<int64_t>(joined_positions_.size()) - new_tokens();
  joined_keys_[layer] = first ? key.clone() : torch::cat({keys_[layer].narrow(kSeqAxis, 0, held), key}, kSeqAxis);
  joined_values_[layer] =
      first ? value.clone() : torch::cat({values_[layer].narrow(kSeqAxis, 0, held), value}, kSeqAxis);
  return {joined_keys_[layer], joined_values_[layer], visible_};
}

void SinkCache::on_commit() {
  std::vector<int64_t> columns;  // those that the next query sees
  for (size_t column = 0; column < joined_positions_.size(); ++column) {
    if (sees(length() + new_tokens(), joined_positions_[column])) columns.push_back(static_cast<int64_t>(column));
  }
  const torch::Tensor kept = torch::tensor(columns, torch::dtype(torch::kInt64).device(options().device()));
  Layers keys, values;  // all of them first: an allocation that fails leaves the old ones
  for (const torch::Tensor& joined : joined_keys_) keys.push_back(joined.index_select(kSeqAxis, kept));
  for (const torch::Tensor& joined : joined_values_) values.push_back(joined.index_select(kSeqAxis, kept));
  keys_.swap(keys);
  values_.swap(values);
  forget_joined();
}
// ANCHOR_END: forward

void SinkCache::forget_joined() {
  joined_keys_.clear();
  joined_values_.clear();
}

void SinkCache::on_abandon() { forget_joined(); }

void SinkCache::reset() {
  KVCache::reset();
  keys_.assign(shape().layers, {});
  values_.assign(shape().layers, {});
}

int64_t SinkCache::bytes() const {
  int64_t sum = 0;
  for (const auto* layers : {&keys_, &values_}) {
    for (const torch::Tensor& tensor : *layers) sum += tensor.defined() ? tensor.nbytes() : 0;
  }
  return sum;
}

}  // namespace kvbook

#include "common/tracing_cache.h"

#include <algorithm>

#include "common/axes.h"
#include "common/ids.h"

namespace kvbook {

std::vector<int64_t> TracingCache::layers_like(int64_t layer) const {
  std::vector<int64_t> layers;
  for (int64_t other = 0; other < shape().layers; ++other) {
    if (same_slots_as(other) == layer) layers.push_back(other);
  }
  if (static_cast<int64_t>(layers.size()) == shape().layers) layers.clear();
  return layers;
}

void TracingCache::on_begin(const Step& step) {
  traced_.clear();
  pad_left_ = step.pad_left;
  const int64_t T = new_tokens(), shown = ragged() ? step_size() : 1;
  for (int64_t b = 0; b < shown; ++b) {
    const int64_t row = step_row(b), n = step_count(b);
    if (n == 0) continue;
    TracedForward forward{.first_position = held(b),
                          .ids = to_ids(step.ids.narrow(0, b, 1).narrow(1, pad_left_ ? T - n : 0, n))};
    if (ragged() && std::max(rows(), step_size()) > 1) forward.row = row;
    for (int64_t layer = 0; layer < shape().layers; ++layer) {
      if (same_slots_as(layer) != layer) continue;
      forward.layers = layers_like(layer);
      traced_.push_back({row, b, n, layer, forward});
    }
  }
  ForwardingCache::on_begin(step);
}

KeyValues TracingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  for (auto& [row, b, n, traced_layer, forward] : traced_) {
    if (traced_layer != layer) continue;
    forward.keys = layer_columns(layer, row);
    const int64_t T = new_tokens(), S = kv.keys.size(kSeqAxis);
    torch::Tensor visible = kv.visible.defined() ? kv.visible : torch::ones({T, S}, torch::kBool);
    if (visible.dim() == 4) visible = visible[b][0];
    forward.visible = visible.narrow(0, pad_left_ ? T - n : 0, n).clone();
  }
  return kv;
}

void TracingCache::on_commit() {
  ForwardingCache::on_commit();
  for (auto& traced : traced_) {
    traced.forward.after = layer_slots(traced.layer, traced.row);
    traced.forward.bytes = bytes();
    on_forward_(traced.forward);
  }
}

}  // namespace kvbook

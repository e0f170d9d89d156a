#include "chapters/10_layer_windows/layer_windows_cache.h"

#include <algorithm>

namespace kvbook {

// ANCHOR: rings
LayerWindowsCache::LayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows) : KVCache(shape) {
  const auto L = static_cast<size_t>(shape.layers);
  TORCH_CHECK_VALUE(windows.empty() || windows.size() == L, windows.size(), " windows for ", L,
                    " layers: give each one");
  for (size_t layer = 0; layer < L; ++layer) {
    const int64_t asked = windows.empty() ? 0 : windows[layer];
    TORCH_CHECK_VALUE(asked >= 0, "the window of layer ", layer, " must be at least 1, or 0 for a full layer, not ",
                      asked);
    const int64_t window = asked == 0 ? shape.context : std::min(asked, shape.context);
    const auto same = std::find_if(rings_.begin(), rings_.end(), [&](const Ring& r) { return r.window() == window; });
    which_.push_back(same - rings_.begin());
    if (same == rings_.end()) rings_.emplace_back(window);
  }
}
// ANCHOR_END: rings

// ANCHOR: forward
void LayerWindowsCache::on_begin(const Step& step) {
  const int64_t end = length() + step.ids.size(1), context = shape().context;
  for (const Ring& ring : rings_) {  // a full layer forgets nothing
    TORCH_CHECK_INDEX(ring.window() < context || end <= context, "the full layers have room for ", context,
                      " tokens, and this would be ", end, ": call reset(), or give every layer a window");
  }
  for (Ring& ring : rings_) ring.open(length(), step.ids.size(1), step.ids.device());
}

KeyValues LayerWindowsCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (layers_.empty()) allocate();
  return ring_of(layer).update(layers_[layer], key, value);
}

void LayerWindowsCache::on_commit() {
  for (size_t layer = 0; layer < layers_.size(); ++layer) rings_[which_[layer]].store_staged(layers_[layer]);
  for (Ring& ring : rings_) ring.commit();
}

void LayerWindowsCache::on_abandon() {
  for (RingLayer& layer : layers_) layer.unstage();
  for (Ring& ring : rings_) ring.abandon();
  if (length() == 0) release();
}
// ANCHOR_END: forward

// ANCHOR: truncate
int64_t LayerWindowsCache::can_give_back(int64_t row) const {
  int64_t most = length(row);
  for (const Ring& ring : rings_) most = std::min(most, ring.can_give_back(length(row)));
  return most;
}

void LayerWindowsCache::on_truncate() {
  for (Ring& ring : rings_) ring.truncate(length());
}
// ANCHOR_END: truncate

void LayerWindowsCache::allocate() {
  std::vector<RingLayer> layers;
  for (int64_t layer = 0; layer < shape().layers; ++layer) {
    const std::vector<int64_t> size = {rows(), shape().kv_heads, ring_of(layer).size(), shape().head_size};
    layers.push_back({.keys = torch::empty(size, options()), .values = torch::empty(size, options())});
  }
  layers_ = std::move(layers);
}

void LayerWindowsCache::release() {
  for (Ring& ring : rings_) ring.clear();
  layers_.clear();
}

void LayerWindowsCache::reset() {
  KVCache::reset();
  release();
}

int64_t LayerWindowsCache::bytes() const {
  int64_t bytes = 0;
  for (const RingLayer& layer : layers_) bytes += static_cast<int64_t>(layer.keys.nbytes() + layer.values.nbytes());
  return bytes;
}

// ANCHOR: looking
int64_t LayerWindowsCache::same_slots_as(int64_t layer) const {
  check_layer(layer);
  return std::find(which_.begin(), which_.end(), which_[layer]) - which_.begin();
}

std::vector<int64_t> LayerWindowsCache::layer_slots(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);  // refuses a row that is not there
  return layers_.empty() ? std::vector<int64_t>() : ring_of(layer).positions();
}

std::vector<int64_t> LayerWindowsCache::layer_columns(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);
  return ring_of(layer).columns();
}
// ANCHOR_END: looking

}  // namespace kvbook

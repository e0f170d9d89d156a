#include "chapters/10_layer_windows/answers/growing_layer_windows_cache.h"

#include <algorithm>
#include <utility>

#include "chapters/04_preallocated/answers/doubling_cache.h"
#include "common/axes.h"

namespace kvbook {

GrowingLayerWindowsCache::GrowingLayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows,
                                                   int64_t first)
    : KVCache(shape), first_(first), rings_(shape, windows, /*spare=*/0) {
  TORCH_CHECK_VALUE(first > 0, "there must be at least 1 slot at first, not ", first);
}

void GrowingLayerWindowsCache::on_begin(const Step& step) {
  rings_.open(length(), step.ids.size(1), step.ids.device());
}

// ANCHOR: grow
int64_t GrowingLayerWindowsCache::full_layer_slots(int64_t tokens) const {
  return std::min(doubled_slots(tokens, first_), shape().context);
}

KeyValues GrowingLayerWindowsCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (layers_.empty()) allocate();
  const int64_t slots = layers_[layer].keys.size(kSeqAxis);
  if (rings_.is_full(layer) && length() + new_tokens() > slots) grow(layer);
  return rings_.of(layer).update(layers_[layer], key, value);
}

void GrowingLayerWindowsCache::grow(int64_t layer) {
  const int64_t P = length();
  RingLayer larger = buffers(full_layer_slots(P + new_tokens()));
  larger.keys.narrow(kSeqAxis, 0, P).copy_(layers_[layer].keys.narrow(kSeqAxis, 0, P));
  larger.values.narrow(kSeqAxis, 0, P).copy_(layers_[layer].values.narrow(kSeqAxis, 0, P));
  before_[layer] = std::exchange(layers_[layer], std::move(larger));
}

void GrowingLayerWindowsCache::on_commit() {
  for (int64_t layer = 0; layer < shape().layers; ++layer) rings_.of(layer).store_staged(layers_[layer]);
  rings_.commit();
  before_.assign(shape().layers, {});
}

void GrowingLayerWindowsCache::on_abandon() {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    layers_[layer].unstage();
    if (before_[layer].keys.defined()) layers_[layer] = std::exchange(before_[layer], {});  // only some may have grown
  }
  rings_.abandon();
  if (length() == 0) release();
}
// ANCHOR_END: grow

void GrowingLayerWindowsCache::on_truncate() { rings_.truncate(length()); }

int64_t GrowingLayerWindowsCache::can_give_back(int64_t row) const { return rings_.can_give_back(length(row)); }

RingLayer GrowingLayerWindowsCache::buffers(int64_t slots) const {
  const std::vector<int64_t> size = {rows(), shape().kv_heads, slots, shape().head_size};
  return {.keys = torch::empty(size, options()), .values = torch::empty(size, options())};
}

void GrowingLayerWindowsCache::allocate() {
  std::vector<RingLayer> layers;
  for (int64_t layer = 0; layer < shape().layers; ++layer) {
    layers.push_back(buffers(rings_.is_full(layer) ? full_layer_slots(new_tokens()) : rings_.of(layer).size()));
  }
  before_.assign(shape().layers, {});
  layers_ = std::move(layers);
}

void GrowingLayerWindowsCache::release() {
  rings_.clear();
  layers_.clear();
  before_.clear();
}

void GrowingLayerWindowsCache::reset() {
  KVCache::reset();
  release();
}

int64_t GrowingLayerWindowsCache::bytes() const {
  int64_t bytes = 0;
  for (const RingLayer& layer : layers_) bytes += static_cast<int64_t>(layer.keys.nbytes() + layer.values.nbytes());
  return bytes;
}

int64_t GrowingLayerWindowsCache::same_slots_as(int64_t layer) const {
  check_layer(layer);
  return rings_.same_as(layer);
}

std::vector<int64_t> GrowingLayerWindowsCache::layer_slots(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);  // refuses a row that is not there
  if (layers_.empty()) return {};
  std::vector<int64_t> positions = rings_.of(layer).positions();
  positions.resize(layers_[layer].keys.size(kSeqAxis));
  return positions;
}

std::vector<int64_t> GrowingLayerWindowsCache::layer_columns(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);
  return rings_.of(layer).columns();
}

}  // namespace kvbook

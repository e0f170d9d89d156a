#include "chapters/10_layer_windows/answers/spare_layer_windows_cache.h"

namespace kvbook {

SpareLayerWindowsCache::SpareLayerWindowsCache(const ModelShape& shape, const std::vector<int64_t>& windows,
                                               int64_t spare)
    : KVCache(shape), rings_(shape, windows, spare) {}

void SpareLayerWindowsCache::on_begin(const Step& step) { rings_.open(length(), step.ids.size(1), step.ids.device()); }

KeyValues SpareLayerWindowsCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (layers_.empty()) allocate();
  return rings_.of(layer).update(layers_[layer], key, value);
}

void SpareLayerWindowsCache::on_commit() {
  for (int64_t layer = 0; layer < shape().layers; ++layer) rings_.of(layer).store_staged(layers_[layer]);
  rings_.commit();
}

void SpareLayerWindowsCache::on_abandon() {
  for (RingLayer& layer : layers_) layer.unstage();
  rings_.abandon();
  if (length() == 0) release();
}

void SpareLayerWindowsCache::on_truncate() { rings_.truncate(length()); }

int64_t SpareLayerWindowsCache::can_give_back(int64_t row) const { return rings_.can_give_back(length(row)); }

void SpareLayerWindowsCache::allocate() {
  std::vector<RingLayer> layers;
  for (int64_t layer = 0; layer < shape().layers; ++layer) {
    const std::vector<int64_t> size = {rows(), shape().kv_heads, rings_.of(layer).size(), shape().head_size};
    layers.push_back({.keys = torch::empty(size, options()), .values = torch::empty(size, options())});
  }
  layers_ = std::move(layers);
}

void SpareLayerWindowsCache::release() {
  rings_.clear();
  layers_.clear();
}

void SpareLayerWindowsCache::reset() {
  KVCache::reset();
  release();
}

int64_t SpareLayerWindowsCache::bytes() const {
  int64_t bytes = 0;
  for (const RingLayer& layer : layers_) bytes += static_cast<int64_t>(layer.keys.nbytes() + layer.values.nbytes());
  return bytes;
}

int64_t SpareLayerWindowsCache::same_slots_as(int64_t layer) const {
  check_layer(layer);
  return rings_.same_as(layer);
}

std::vector<int64_t> SpareLayerWindowsCache::layer_slots(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);  // refuses a row that is not there
  return layers_.empty() ? std::vector<int64_t>() : rings_.of(layer).positions();
}

std::vector<int64_t> SpareLayerWindowsCache::layer_columns(int64_t layer, int64_t row) const {
  check_layer(layer);
  length(row);
  return rings_.of(layer).columns();
}

}  // namespace kvbook

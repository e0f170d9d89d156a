#include "chapters/06_ring_buffer/ring_buffer_cache.h"

namespace kvbook {

RingBufferCache::RingBufferCache(const ModelShape& shape, int64_t window, int64_t spare)
    : KVCache(shape), ring_(std::min(window, shape.context), spare) {}

// ANCHOR: forward
void RingBufferCache::on_begin(const Step& step) { ring_.open(length(), step.ids.size(1), step.ids.device()); }

KeyValues RingBufferCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (layers_.empty()) allocate();
  return ring_.update(layers_[layer], key, value);
}

void RingBufferCache::on_commit() {
  for (RingLayer& layer : layers_) ring_.store_staged(layer);
  ring_.commit();
}

void RingBufferCache::on_abandon() {
  for (RingLayer& layer : layers_) layer.unstage();
  ring_.abandon();
  if (length() == 0) release();
}
// ANCHOR_END: forward

int64_t RingBufferCache::can_give_back(int64_t row) const { return ring_.can_give_back(length(row)); }

void RingBufferCache::on_truncate() { ring_.truncate(length()); }

// ANCHOR: memory
void RingBufferCache::allocate() {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, ring_.size(), shape().head_size};
  keys_ = torch::empty(size, options());  // empty: only slots that were written are ever returned
  values_ = torch::empty(size, options());
  for (int64_t layer = 0; layer < shape().layers; ++layer) {
    layers_.push_back({.keys = keys_[layer], .values = values_[layer]});
  }
}

void RingBufferCache::release() {
  ring_.clear();
  layers_.clear();
  keys_.reset();
  values_.reset();
}

void RingBufferCache::reset() {
  KVCache::reset();
  release();
}

int64_t RingBufferCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> RingBufferCache::slots(int64_t row) const {
  length(row);  // refuses a row that is not there
  return layers_.empty() ? std::vector<int64_t>() : ring_.positions();
}

std::vector<int64_t> RingBufferCache::columns(int64_t row) const {
  length(row);
  return ring_.columns();
}
// ANCHOR_END: memory

}  // namespace kvbook

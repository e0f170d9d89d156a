#include "tests/failures/slow_memory_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/axes.h"

namespace kvbook {

SlowMemoryCache::SlowMemoryCache(const ModelShape& shape, int64_t staying)
    : KVCache(shape), staying_(staying), in_buffer_(staying + 2, -1) {}

void SlowMemoryCache::on_begin(const Step& step) {
  visible_ = causal_mask(length(), step.ids.size(1), step.ids.device());
}

KeyValues SlowMemoryCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  const int64_t P = length(), T = new_tokens();
  if (!fast_.defined()) {
    const std::vector<int64_t> size = {2, rows(), shape().kv_heads, shape().context, shape().head_size};
    slow_ = torch::zeros(size, options()).unsqueeze(0).repeat({shape().layers, 1, 1, 1, 1, 1});
    fast_ = torch::zeros(size, options()).unsqueeze(0).repeat({staying_ + 2, 1, 1, 1, 1, 1});
  }
  const int64_t buffer = buffer_of(layer);
  if (in_buffer_[buffer] != layer) fetch(layer, P);
  const torch::Tensor fresh = torch::stack({key, value});
  fast_[buffer].narrow(kSeqAxis + 1, P, T).copy_(fresh);
  store(layer, fresh);
  fetch_ahead(layer);
  const torch::Tensor seen = fast_[buffer].narrow(kSeqAxis + 1, 0, P + T);
  return {seen[0], seen[1], visible_};
}

void SlowMemoryCache::store(int64_t layer, const torch::Tensor& fresh) { write_slow(layer, fresh); }

void SlowMemoryCache::write_slow(int64_t layer, const torch::Tensor& fresh) {
  slow_[layer].narrow(kSeqAxis + 1, length(), new_tokens()).copy_(fresh);
}

void SlowMemoryCache::fetch(int64_t layer, int64_t tokens) {
  const int64_t buffer = buffer_of(layer);
  fast_[buffer].narrow(kSeqAxis + 1, 0, tokens).copy_(slow_[layer].narrow(kSeqAxis + 1, 0, tokens));
  in_buffer_[buffer] = layer;
}

void SlowMemoryCache::on_abandon() {
  visible_.reset();
  std::fill(in_buffer_.begin() + staying_, in_buffer_.end(), -1);
  if (length() == 0) reset();
}

void SlowMemoryCache::reset() {
  KVCache::reset();
  slow_.reset();
  fast_.reset();
  std::fill(in_buffer_.begin(), in_buffer_.end(), -1);
}

}  // namespace kvbook

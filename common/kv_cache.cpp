#include "common/kv_cache.h"

#include <numeric>

#include "common/check.h"

namespace kvbook {

KVCache::KVCache(const ModelShape& shape) : shape_(shape) {
  for (const int64_t size :
       {shape.layers, shape.heads, shape.kv_heads, shape.head_size, shape.context, shape.vocabulary}) {
    TORCH_CHECK_VALUE(size > 0, "a model shape has only positive sizes, got ", size);
  }
}

torch::Tensor KVCache::begin(const Step& step) {
  abandon();
  TORCH_CHECK_VALUE(step.ids.defined() && step.ids.dim() == 2 && step.ids.scalar_type() == torch::kInt64,
                    "ids must be int64 [B, T]");
  TORCH_CHECK_VALUE(step.ids.numel() > 0, "ids has shape ", step.ids.sizes(), ": there is no token in it");
  TORCH_CHECK_VALUE(!knows_layout() || step.ids.size(0) == rows_, "the cache holds ", rows_, " rows and this step has ",
                    step.ids.size(0), ": call reset() before another batch size");
  step_rows_ = step.ids.size(0);
  step_tokens_ = step.ids.size(1);
  on_begin(step);
  updated_.assign(shape_.layers, false);
  open_ = true;
  return torch::arange(length_, length_ + step_tokens_, step.ids.options());
}

void KVCache::check_update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  TORCH_CHECK_VALUE(open_, "update() outside a forward: call begin() first");
  TORCH_CHECK_VALUE(0 <= layer && layer < shape_.layers, "layer ", layer, " of a model with ", shape_.layers);
  TORCH_CHECK_VALUE(!updated_[layer], "layer ", layer, " was updated twice in one forward");
  const std::vector<int64_t> expected = {step_rows_, shape_.kv_heads, step_tokens_, shape_.head_size};
  check_shape(key, expected, "key");
  check_shape(value, expected, "value");
  const bool same_kind = key.scalar_type() == value.scalar_type() && key.device() == value.device();
  TORCH_CHECK_VALUE(same_kind, "key is ", key.scalar_type(), " on ", key.device(), ", value is ", value.scalar_type(),
                    " on ", value.device());
  if (knows_layout()) {
    const auto dtype = c10::typeMetaToScalarType(options_.dtype());
    TORCH_CHECK_VALUE(key.scalar_type() == dtype && key.device() == options_.device(), "the cache holds ", dtype,
                      " on ", options_.device(), " and this key is ", key.scalar_type(), " on ", key.device(),
                      ": call reset() first");
  } else {
    rows_ = step_rows_;
    options_ = torch::TensorOptions().dtype(key.scalar_type()).device(key.device());
  }
  updated_[layer] = true;
}

void KVCache::commit() {
  TORCH_INTERNAL_ASSERT(open_, "commit() without begin()");
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    TORCH_INTERNAL_ASSERT(updated_[layer], "commit() before layer ", layer, " was updated");
  }
  on_commit();
  length_ += step_tokens_;
  open_ = false;
}

void KVCache::abandon() {
  if (!open_) return;
  open_ = false;
  on_abandon();
  if (length_ == 0) forget_layout();  // nothing is held, so nothing binds the next forward
}

void KVCache::reset() {
  abandon();
  length_ = 0;
  forget_layout();
}

void KVCache::forget_layout() { rows_ = 0; }

int64_t KVCache::length(int64_t row) const {
  TORCH_CHECK_INDEX(row >= 0 && (row == 0 || row < rows_), "row ", row, " of a cache with ", rows_, " rows");
  return length_;
}

std::vector<int64_t> KVCache::slots(int64_t row) const {
  std::vector<int64_t> positions(length(row));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

int64_t key_value_bytes(const ModelShape& shape, int64_t rows, int64_t slots, int64_t bytes_per_element) {
  return 2 * shape.layers * rows * shape.kv_heads * slots * shape.head_size * bytes_per_element;
}

}  // namespace kvbook

#include "tests/support/small_forward.h"

namespace kvbook {

torch::Tensor numbered_keys(int64_t first, int64_t T, int64_t B, torch::ScalarType dtype) {
  const torch::Tensor numbers = torch::arange(first, first + T, torch::dtype(dtype));
  return numbers.view({1, 1, T, 1}).expand({B, kSmallShape.kv_heads, T, kSmallShape.head_size}).contiguous();
}

Given forward_numbered(KVCache& cache, int64_t T, int64_t B, torch::ScalarType dtype) {
  const int64_t first = cache.length();
  cache.begin({torch::zeros({B, T}, torch::kInt64)});
  const torch::Tensor keys = numbered_keys(first, T, B, dtype);
  Given layer_0;
  for (int64_t layer = 0; layer < kSmallShape.layers; ++layer) {
    const KeyValues kv = cache.update(layer, keys, -keys);
    if (layer > 0) continue;
    layer_0 = {{kv.keys.clone(), kv.values.clone(), kv.visible}, kv.keys.data_ptr(), kv.values.data_ptr()};
  }
  cache.commit();
  return layer_0;
}

std::vector<int64_t> numbers_of(const torch::Tensor& keys) {
  const torch::Tensor row = keys[0].select(0, 0).select(1, 0).round().to(torch::kInt64).contiguous();
  return {row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + row.numel()};
}

}  // namespace kvbook

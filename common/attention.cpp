#include "common/attention.h"

#include "common/axes.h"
#include "common/check.h"

namespace kvbook {

// ANCHOR: attend
torch::Tensor attend(const torch::Tensor& query, const KeyValues& kv) {
  TORCH_CHECK_VALUE(query.dim() == 4, "query has shape ", query.sizes(), ", expected [B, H, T, D]");
  const std::vector<int64_t> shape = {query.size(kRowAxis), query.size(kHeadAxis), kv.keys.size(kSeqAxis),
                                      query.size(kSizeAxis)};
  check_shape(kv.keys, shape, "keys");
  check_shape(kv.values, shape, "values");
  if (!kv.visible.defined()) return at::scaled_dot_product_attention(query, kv.keys, kv.values);

  // [T, S] -> [S, 1], or [B, 1, T, S] -> [B, 1, S, 1]: one flag a key.
  const torch::Tensor hidden_from_all = kv.visible.any(-2).logical_not().unsqueeze(-1);
  const torch::Tensor keys = kv.keys.masked_fill(hidden_from_all, 0);
  const torch::Tensor values = kv.values.masked_fill(hidden_from_all, 0);
  return at::scaled_dot_product_attention(query, keys, values, kv.visible);
}
// ANCHOR_END: attend

}  // namespace kvbook

#include "chapters/03_masked_offsets/answers/prefix_cache.h"

namespace kvbook {

// ANCHOR: prefix
torch::Tensor prefix_mask(int64_t P, int64_t T, int64_t prefix, torch::Device device) {
  const auto integers = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const torch::Tensor query_position = torch::arange(P, P + T, integers).unsqueeze(1);  // [T, 1]
  const torch::Tensor key_position = torch::arange(P + T, integers).unsqueeze(0);       // [1, S]
  return (key_position <= query_position).logical_or(key_position < prefix);            // [T, S]
}

void PrefixCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_VALUE(P + T >= prefix_, "this forward ends at token ", P + T, ", inside the prefix of ", prefix_,
                    " tokens that see each other: feed all of the prefix at once");
  ForwardingCache::on_begin(step);
  visible_ = prefix_mask(P, T, prefix_, step.ids.device());
}

KeyValues PrefixCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  KeyValues kv = ForwardingCache::update(layer, key, value);
  kv.visible = visible_;
  return kv;
}
// ANCHOR_END: prefix

}  // namespace kvbook

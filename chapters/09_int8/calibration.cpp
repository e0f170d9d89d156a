#include "chapters/09_int8/calibration.h"

#include "chapters/02_cat_cache/cat_cache.h"
#include "common/forwarding_cache.h"
#include "common/ids.h"

namespace kvbook {
namespace {

// ANCHOR: ranges
class RangeMeter final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    raise(ranges.keys, layer, key);
    raise(ranges.values, layer, value);
    return ForwardingCache::update(layer, key, value);
  }
  KeyValueRanges ranges;

 private:
  void raise(torch::Tensor& range, int64_t layer, const torch::Tensor& fresh) const {
    if (!range.defined()) range = torch::zeros({shape().layers, shape().kv_heads, shape().head_size}, fresh.options());
    const torch::Tensor greatest = fresh.abs().amax({0, 2});  // [B, H, T, D] -> [H, D]
    range[layer].copy_(torch::maximum(range[layer], greatest));
  }
};

}  // namespace

KeyValueRanges measure_ranges(Gpt2& model, const std::vector<std::vector<int64_t>>& texts) {
  TORCH_CHECK_VALUE(!texts.empty(), "there is no text to measure ranges on");
  CatCache inner(model->shape());
  RangeMeter meter(inner);
  for (const std::vector<int64_t>& text : texts) {
    meter.reset();
    model->hidden({to_row(text)}, meter);
  }
  return meter.ranges;
}
// ANCHOR_END: ranges

}  // namespace kvbook

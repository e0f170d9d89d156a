#include "chapters/09_int8/int8_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "chapters/09_int8/quantize.h"
#include "common/axes.h"
#include "common/check.h"

namespace kvbook {

Int8Cache::Int8Cache(const ModelShape& shape, const KeyValueRanges& fixed) : KVCache(shape), fixed_(fixed) {
  if (!fixed.keys.defined() && !fixed.values.defined()) return;
  TORCH_CHECK_VALUE(fixed.keys.defined() && fixed.values.defined(),
                    "ranges of keys alone, or of values, are not enough");
  const std::vector<int64_t> size = {shape.layers, shape.kv_heads, shape.head_size};
  check_shape(fixed.keys, size, "the keys' ranges");
  check_shape(fixed.values, size, "the values' ranges");
}

void Int8Cache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= shape().context, "the cache holds ", P, " of ", shape().context,
                    " tokens and has no room for ", T, " more");
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

// ANCHOR: update
KeyValues Int8Cache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.codes.defined()) {
    make(keys_, fixed_.keys);
    make(values_, fixed_.values);
  }
  return {stored(keys_, layer, key), stored(values_, layer, value), visible_};
}

/// Quantizes the new tokens, [B, H, T, D], and gives back all, [B, H, P + T, D], as their codes say.
torch::Tensor Int8Cache::stored(Side& side, int64_t layer, const torch::Tensor& fresh) {
  const int64_t P = length(), T = new_tokens();
  torch::Tensor scales = side.scales[layer];
  if (!fixed_.keys.defined()) {
    scales.narrow(kSeqAxis, P, T).copy_(scales_of(fresh, kSizeAxis));
    scales = scales.narrow(kSeqAxis, 0, P + T);
  }
  const torch::Tensor own = fixed_.keys.defined() ? scales : scales.narrow(kSeqAxis, P, T);
  side.codes[layer].narrow(kSeqAxis, P, T).copy_(quantize(fresh, own));
  return dequantize(side.codes[layer].narrow(kSeqAxis, 0, P + T), scales, fresh.scalar_type());
}

void Int8Cache::make(Side& side, const torch::Tensor& range) const {
  const int64_t L = shape().layers, B = rows(), H = shape().kv_heads, C = shape().context, D = shape().head_size;
  side.codes = torch::empty({L, B, H, C, D}, options().dtype(torch::kInt8));
  if (range.defined()) {
    side.scales = (range.to(options().dtype(torch::kFloat32)) / 127).view({L, 1, H, 1, D}).clone();
  } else {
    side.scales = torch::empty({L, B, H, C, 1}, options().dtype(torch::kFloat32));
  }
}
// ANCHOR_END: update

void Int8Cache::on_abandon() {
  visible_.reset();
  if (length() == 0) release();  // else what was written lies past length(): the next forward overwrites it
}

void Int8Cache::reset() {
  KVCache::reset();
  release();
}

void Int8Cache::release() {
  keys_ = values_ = {};
  visible_.reset();
}

int64_t Int8Cache::bytes() const {
  int64_t bytes = 0;
  for (const Side* side : {&keys_, &values_}) {
    if (side->codes.defined()) bytes += side->codes.nbytes() + side->scales.nbytes();
  }
  return bytes;
}

std::vector<int64_t> Int8Cache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (keys_.codes.defined()) positions.resize(shape().context, kEmptySlot);
  return positions;
}

}  // namespace kvbook

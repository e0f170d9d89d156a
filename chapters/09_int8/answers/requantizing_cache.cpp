#include "chapters/09_int8/answers/requantizing_cache.h"

#include <algorithm>

#include "chapters/03_masked_offsets/causal_mask.h"
#include "chapters/09_int8/quantize.h"
#include "common/axes.h"

namespace kvbook {

RequantizingCache::RequantizingCache(const ModelShape& shape) : KVCache(shape) {
  for (Side* side : {&keys_, &values_}) {
    side->now.resize(shape.layers);
    side->staged.resize(shape.layers);
  }
}

void RequantizingCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= shape().context, "the cache holds ", P, " of ", shape().context,
                    " tokens and has no room for ", T, " more");
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

KeyValues RequantizingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  return {stored(keys_, layer, key), stored(values_, layer, value), visible_};
}

// ANCHOR: stored
torch::Tensor RequantizingCache::stored(Side& side, int64_t layer, const torch::Tensor& fresh) {
  const Held& before = side.now[layer];
  torch::Tensor scales = scales_of(fresh, kSeqAxis), numbers = fresh;
  if (before.codes.defined()) {
    scales = torch::maximum(scales, before.scales);
    const torch::Tensor old = dequantize(before.codes, before.scales, fresh.scalar_type());  // not what came
    numbers = torch::cat({old, fresh}, kSeqAxis);
  }
  const torch::Tensor codes = quantize(numbers, scales);
  side.staged[layer] = {codes, scales};
  return dequantize(codes, scales, fresh.scalar_type());
}
// ANCHOR_END: stored

void RequantizingCache::on_commit() {
  for (Side* side : {&keys_, &values_}) std::swap(side->now, side->staged);
  on_abandon();
}

void RequantizingCache::on_abandon() {
  visible_.reset();
  for (Side* side : {&keys_, &values_}) std::fill(side->staged.begin(), side->staged.end(), Held());
}

void RequantizingCache::reset() {
  KVCache::reset();
  for (Side* side : {&keys_, &values_}) std::fill(side->now.begin(), side->now.end(), Held());
}

int64_t RequantizingCache::bytes() const {
  int64_t bytes = 0;
  for (const Side* side : {&keys_, &values_}) {
    for (const Held& held : side->now) {
      if (held.codes.defined()) bytes += held.codes.nbytes() + held.scales.nbytes();
    }
  }
  return bytes;
}

}  // namespace kvbook

#include "chapters/09_int8/answers/two_sided.h"

#include <cmath>

#include "chapters/03_masked_offsets/causal_mask.h"
#include "chapters/09_int8/quantize.h"
#include "common/axes.h"
#include "common/check.h"

namespace kvbook {
namespace {

constexpr int64_t kTokenAxis = 0, kChannelAxis = 1;  // of the experiment's keys and values

// ANCHOR: experiment
/// `numbers`, [tokens, channels], as their codes say.
torch::Tensor rounded_by(ScaleOf kind, const torch::Tensor& numbers) {
  const torch::Tensor scales = scales_of(numbers, kind == ScaleOf::kToken ? kChannelAxis : kTokenAxis);
  return dequantize(quantize(numbers, scales), scales, numbers.scalar_type());
}

}  // namespace

TwoSidedErrors two_sided_errors(OutlierAt outlier, ScaleOf keys, ScaleOf values) {
  constexpr int64_t kKeys = 16, kSize = 64, kQueries = 256;
  torch::manual_seed(92);
  const auto drawn = [] { return 0.6 * torch::rand({kKeys, kSize}, torch::kFloat64) - 0.3; };
  const torch::Tensor k = drawn(), v = drawn(), queries = 3 * torch::randn({kQueries, kSize}, torch::kFloat64);
  const bool in_keys = outlier == OutlierAt::kKeysChannel || outlier == OutlierAt::kKeysToken;
  const bool a_channel = outlier == OutlierAt::kKeysChannel || outlier == OutlierAt::kValuesChannel;
  (in_keys ? k : v).select(a_channel ? kChannelAxis : kTokenAxis, 0).fill_(100);

  const auto weights_for = [&](const torch::Tensor& some) {
    return (at::matmul(queries, some.t()) / std::sqrt(static_cast<double>(kSize))).softmax(-1);
  };
  const auto greatest = [](const torch::Tensor& a, const torch::Tensor& b) {
    return (a - b).abs().amax(-1).mean().item<double>();
  };
  const torch::Tensor weights = weights_for(k), of_codes = weights_for(rounded_by(keys, k));
  return {.weights = (of_codes - weights).abs().sum(-1).mean().item<double>(),
          .output = greatest(at::matmul(of_codes, rounded_by(values, v)), at::matmul(weights, v))};
}
// ANCHOR_END: experiment

TwoSidedCache::TwoSidedCache(const ModelShape& shape, const KeyValueRanges& fixed)
    : KVCache(shape), keys_{.range = fixed.keys}, values_{.range = fixed.values} {
  const std::vector<int64_t> size = {shape.layers, shape.kv_heads, shape.head_size};
  if (fixed.keys.defined()) check_shape(fixed.keys, size, "the keys' ranges");
  if (fixed.values.defined()) check_shape(fixed.values, size, "the values' ranges");
}

void TwoSidedCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= shape().context, "the cache holds ", P, " of ", shape().context,
                    " tokens and has no room for ", T, " more");
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

KeyValues TwoSidedCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.codes.defined()) {
    make(keys_);
    make(values_);
  }
  return {stored(keys_, layer, key), stored(values_, layer, value), visible_};
}

// ANCHOR: stored
torch::Tensor TwoSidedCache::stored(Side& side, int64_t layer, const torch::Tensor& fresh) {
  const int64_t P = length(), T = new_tokens();
  torch::Tensor own = side.scales[layer], all = own;  // of the new tokens, and of all
  if (!side.range.defined()) {
    all = all.narrow(kSeqAxis, 0, P + T);
    own = all.narrow(kSeqAxis, P, T);
    own.copy_(scales_of(fresh, kSizeAxis));
  }
  side.codes[layer].narrow(kSeqAxis, P, T).copy_(quantize(fresh, own));
  return dequantize(side.codes[layer].narrow(kSeqAxis, 0, P + T), all, fresh.scalar_type());
}

void TwoSidedCache::make(Side& side) const {
  const int64_t L = shape().layers, B = rows(), H = shape().kv_heads, C = shape().context, D = shape().head_size;
  side.codes = torch::empty({L, B, H, C, D}, options().dtype(torch::kInt8));
  if (side.range.defined()) {
    side.scales = (side.range.to(options().dtype(torch::kFloat32)) / 127).view({L, 1, H, 1, D}).clone();
  } else {
    side.scales = torch::empty({L, B, H, C, 1}, options().dtype(torch::kFloat32));
  }
}
// ANCHOR_END: stored

void TwoSidedCache::on_abandon() {
  visible_.reset();
  if (length() == 0) release();  // else what was written lies past length(): the next forward overwrites it
}

void TwoSidedCache::reset() {
  KVCache::reset();
  release();
}

void TwoSidedCache::release() {
  for (Side* side : {&keys_, &values_}) *side = {.range = side->range};
  visible_.reset();
}

int64_t TwoSidedCache::bytes() const {
  int64_t bytes = 0;
  for (const Side* side : {&keys_, &values_}) {
    if (side->codes.defined()) bytes += side->codes.nbytes() + side->scales.nbytes();
  }
  return bytes;
}

std::vector<int64_t> TwoSidedCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (keys_.codes.defined()) positions.resize(shape().context, kEmptySlot);
  return positions;
}

}  // namespace kvbook

#include "chapters/09_int8/grouped_int8_cache.h"

#include <algorithm>

#include "chapters/09_int8/quantize.h"
#include "common/axes.h"

namespace kvbook {

GroupedInt8Cache::GroupedInt8Cache(const ModelShape& shape, int64_t group) : KVCache(shape), group_(group) {
  TORCH_CHECK_VALUE(group >= 1, "a group has at least 1 token, not ", group);
}

// ANCHOR: mask
torch::Tensor grouped_mask(int64_t P, int64_t T, int64_t N, torch::Device device) {
  const int64_t closed = (P + T - 1) / N * N, open = P / N * N;
  const torch::Tensor query = torch::arange(P, P + T, device).unsqueeze(1);
  const torch::Tensor in_codes = torch::arange(closed, device), as_it_came = torch::arange(open, P + T, device);
  const torch::Tensor own_group = query.div(N, "floor") * N;  // where it begins
  return torch::cat({in_codes < own_group, (own_group <= as_it_came).logical_and(as_it_came <= query)}, 1);
}
// ANCHOR_END: mask

void GroupedInt8Cache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= shape().context, "the cache holds ", P, " of ", shape().context,
                    " tokens and has no room for ", T, " more");
  visible_.reset();
  if (T > 1) visible_ = grouped_mask(P, T, group_, step.ids.device());
}

// ANCHOR: update
KeyValues GroupedInt8Cache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.codes.defined()) {
    make(keys_);
    make(values_);
  }
  return {stored(keys_, layer, key), stored(values_, layer, value), visible_};
}

torch::Tensor GroupedInt8Cache::stored(Side& side, int64_t layer, const torch::Tensor& fresh) {
  const int64_t P = length(), T = new_tokens(), begin = full(P), end = full(P + T);
  const torch::Tensor codes = side.codes[layer], scales = side.scales[layer];
  const torch::Tensor as_they_came = torch::cat({side.open[layer], fresh}, kSeqAxis);  // positions begin to P + T - 1
  if (end > begin) {  // past length(), if this forward is given up: nobody reads it then
    const auto groups = [&](const torch::Tensor& tokens) { return tokens.unflatten(kSeqAxis, {-1, group_}); };
    const torch::Tensor numbers = groups(as_they_came.narrow(kSeqAxis, 0, end - begin));  // [B, H, groups, N, D]
    const torch::Tensor of_each = scales_of(numbers, kSeqAxis + 1);
    scales.narrow(kSeqAxis, begin / group_, (end - begin) / group_).copy_(of_each.squeeze(kSeqAxis + 1));
    groups(codes.narrow(kSeqAxis, begin, end - begin)).copy_(quantize(numbers, of_each));
  }
  side.staged[layer] = as_they_came.narrow(kSeqAxis, end - begin, P + T - end).clone();

  const int64_t closed = full(P + T - 1);  // what the last query sees in codes
  const torch::Tensor old =
      dequantize(codes.narrow(kSeqAxis, 0, closed),
                 scales.narrow(kSeqAxis, 0, closed / group_).repeat_interleave(group_, kSeqAxis), fresh.scalar_type());
  return torch::cat({old, as_they_came}, kSeqAxis);
}
// ANCHOR_END: update

void GroupedInt8Cache::make(Side& side) const {
  const int64_t L = shape().layers, B = rows(), H = shape().kv_heads, D = shape().head_size, C = full(shape().context);
  side.codes = torch::empty({L, B, H, C, D}, options().dtype(torch::kInt8));
  side.scales = torch::empty({L, B, H, C / group_, D}, options().dtype(torch::kFloat32));
  side.open.assign(L, torch::empty({B, H, 0, D}, options()));
  side.staged.assign(L, {});
}

// ANCHOR: hooks
void GroupedInt8Cache::on_commit() {
  for (Side* side : {&keys_, &values_}) std::swap(side->open, side->staged);
  drop_staged();
}

void GroupedInt8Cache::on_abandon() {
  drop_staged();
  if (length() == 0) release();
}

void GroupedInt8Cache::drop_staged() {
  visible_.reset();
  for (Side* side : {&keys_, &values_}) std::fill(side->staged.begin(), side->staged.end(), torch::Tensor());
}

void GroupedInt8Cache::on_truncate() {
  drop_staged();
  const int64_t left = length() - full(length());  // of the open group; full groups never change
  for (Side* side : {&keys_, &values_}) {
    for (torch::Tensor& open : side->open) open = open.narrow(kSeqAxis, 0, left).clone();
  }
}

int64_t GroupedInt8Cache::can_give_back(int64_t row) const { return length(row) - full(length(row)); }
// ANCHOR_END: hooks

void GroupedInt8Cache::reset() {
  KVCache::reset();
  release();
}

void GroupedInt8Cache::release() {
  keys_ = values_ = {};
  visible_.reset();
}

int64_t GroupedInt8Cache::bytes() const {
  int64_t bytes = 0;
  for (const Side* side : {&keys_, &values_}) {
    if (side->codes.defined()) bytes += side->codes.nbytes() + side->scales.nbytes();
    for (const torch::Tensor& open : side->open) bytes += open.nbytes();
  }
  return bytes;
}

std::vector<int64_t> GroupedInt8Cache::slots(int64_t row) const {
  const int64_t P = length(row);
  std::vector<int64_t> positions;
  if (!keys_.codes.defined()) return positions;
  for (int64_t slot = 0; slot < full(shape().context); ++slot) positions.push_back(slot < full(P) ? slot : kEmptySlot);
  for (int64_t position = full(P); position < P; ++position) positions.push_back(position);
  return positions;
}

std::vector<int64_t> GroupedInt8Cache::columns(int64_t row) const {
  if (!in_step(row)) return {};
  const int64_t P = length(row), T = new_tokens();
  std::vector<int64_t> positions;
  for (int64_t position = 0; position < full(P + T - 1); ++position) positions.push_back(position);
  for (int64_t position = full(P); position < P + T; ++position) positions.push_back(position);
  return positions;
}

}  // namespace kvbook

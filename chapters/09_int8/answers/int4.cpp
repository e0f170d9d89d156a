#include "chapters/09_int8/answers/int4.h"

#include <algorithm>

#include "chapters/09_int8/grouped_int8_cache.h"
#include "chapters/09_int8/quantize.h"
#include "common/axes.h"

namespace kvbook {
namespace {

constexpr int64_t kGreatestInt4 = 7;  // and not 8 on one side only

// ANCHOR: scales
/// scales_of() for 4 bits: the greatest number is code 7.
torch::Tensor int4_scales_of(const torch::Tensor& numbers, int64_t dim) {
  return numbers.abs().amax(dim, /*keepdim=*/true).to(torch::kFloat32) / kGreatestInt4;
}
// ANCHOR_END: scales

}  // namespace

// ANCHOR: pack
torch::Tensor pack_codes(const torch::Tensor& codes) {
  TORCH_CHECK_VALUE(codes.defined() && codes.scalar_type() == torch::kInt8 && codes.dim() >= 1,
                    "codes must be int8 [..., D]");
  const torch::Tensor in_range = codes.ge(-kGreatestInt4).logical_and(codes.le(kGreatestInt4));
  TORCH_CHECK_VALUE(in_range.all().item<bool>(), "a code of 4 bits is between -7 and 7");
  const int64_t D = codes.size(-1), bytes = (D + 1) / 2;
  const torch::Tensor halves = (at::constant_pad_nd(codes, {0, 2 * bytes - D}) + 8).to(torch::kUInt8);  // 1 to 15
  const torch::Tensor pairs = halves.unflatten(-1, {bytes, 2});
  return pairs.select(-1, 0) + 16 * pairs.select(-1, 1);
}

torch::Tensor unpack_codes(const torch::Tensor& bytes, int64_t D) {
  TORCH_CHECK_VALUE(bytes.defined() && bytes.scalar_type() == torch::kUInt8 && bytes.dim() >= 1,
                    "bytes must be uint8 [..., D / 2]");
  TORCH_CHECK_VALUE(D >= 0 && bytes.size(-1) == (D + 1) / 2, D, " codes are not in ", bytes.size(-1), " bytes");
  const torch::Tensor pairs = torch::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1);
  return pairs.flatten(-2).narrow(-1, 0, D).to(torch::kInt8) - 8;
}
// ANCHOR_END: pack

Int4Cache::Int4Cache(const ModelShape& shape, int64_t group) : KVCache(shape), group_(group) {
  TORCH_CHECK_VALUE(group >= 1, "a group has at least 1 token, not ", group);
}

void Int4Cache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= shape().context, "the cache holds ", P, " of ", shape().context,
                    " tokens and has no room for ", T, " more");
  visible_.reset();
  if (T > 1) visible_ = grouped_mask(P, T, group_, step.ids.device());
}

KeyValues Int4Cache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.codes.defined()) {
    make(keys_);
    make(values_);
  }
  return {stored(keys_, layer, key), stored(values_, layer, value), visible_};
}

// ANCHOR: stored
torch::Tensor Int4Cache::stored(Side& side, int64_t layer, const torch::Tensor& fresh) {
  const int64_t P = length(), T = new_tokens(), begin = full(P), end = full(P + T);
  const torch::Tensor codes = side.codes[layer], scales = side.scales[layer];
  const torch::Tensor as_they_came = torch::cat({side.open[layer], fresh}, kSeqAxis);  // positions begin to P + T - 1
  if (end > begin) {  // past length(), if this forward is given up: nobody reads it then
    const auto groups = [&](const torch::Tensor& tokens) { return tokens.unflatten(kSeqAxis, {-1, group_}); };
    const torch::Tensor numbers = groups(as_they_came.narrow(kSeqAxis, 0, end - begin));  // [B, H, groups, N, D]
    const torch::Tensor of_each = int4_scales_of(numbers, kSeqAxis + 1);
    scales.narrow(kSeqAxis, begin / group_, (end - begin) / group_).copy_(of_each.squeeze(kSeqAxis + 1));
    groups(codes.narrow(kSeqAxis, begin, end - begin)).copy_(pack_codes(quantize(numbers, of_each)));
  }
  side.staged[layer] = as_they_came.narrow(kSeqAxis, end - begin, P + T - end).clone();

  const int64_t closed = full(P + T - 1);  // what the last query sees in codes
  const torch::Tensor old =
      dequantize(unpack_codes(codes.narrow(kSeqAxis, 0, closed), shape().head_size),
                 scales.narrow(kSeqAxis, 0, closed / group_).repeat_interleave(group_, kSeqAxis), fresh.scalar_type());
  return torch::cat({old, as_they_came}, kSeqAxis);
}

void Int4Cache::make(Side& side) const {
  const int64_t L = shape().layers, B = rows(), H = shape().kv_heads, D = shape().head_size, C = full(shape().context);
  side.codes = torch::empty({L, B, H, C, (D + 1) / 2}, options().dtype(torch::kUInt8));
  side.scales = torch::empty({L, B, H, C / group_, D}, options().dtype(torch::kFloat32));
  side.open.assign(L, torch::empty({B, H, 0, D}, options()));
  side.staged.assign(L, {});
}
// ANCHOR_END: stored

void Int4Cache::on_commit() {
  for (Side* side : {&keys_, &values_}) std::swap(side->open, side->staged);
  drop_staged();
}

void Int4Cache::on_abandon() {
  drop_staged();
  if (length() == 0) release();
}

void Int4Cache::drop_staged() {
  visible_.reset();
  for (Side* side : {&keys_, &values_}) std::fill(side->staged.begin(), side->staged.end(), torch::Tensor());
}

void Int4Cache::on_truncate() {
  drop_staged();
  const int64_t left = length() - full(length());  // of the open group; full groups never change
  for (Side* side : {&keys_, &values_}) {
    for (torch::Tensor& open : side->open) open = open.narrow(kSeqAxis, 0, left).clone();
  }
}

int64_t Int4Cache::can_give_back(int64_t row) const { return length(row) - full(length(row)); }

void Int4Cache::reset() {
  KVCache::reset();
  release();
}

void Int4Cache::release() {
  keys_ = values_ = {};
  visible_.reset();
}

int64_t Int4Cache::bytes() const {
  int64_t bytes = 0;
  for (const Side* side : {&keys_, &values_}) {
    if (side->codes.defined()) bytes += side->codes.nbytes() + side->scales.nbytes();
    for (const torch::Tensor& open : side->open) bytes += open.nbytes();
  }
  return bytes;
}

std::vector<int64_t> Int4Cache::slots(int64_t row) const {
  const int64_t P = length(row);
  std::vector<int64_t> positions;
  if (!keys_.codes.defined()) return positions;
  for (int64_t slot = 0; slot < full(shape().context); ++slot) positions.push_back(slot < full(P) ? slot : kEmptySlot);
  for (int64_t position = full(P); position < P; ++position) positions.push_back(position);
  return positions;
}

std::vector<int64_t> Int4Cache::columns(int64_t row) const {
  if (!in_step(row)) return {};
  const int64_t P = length(row), T = new_tokens();
  std::vector<int64_t> positions;
  for (int64_t position = 0; position < full(P + T - 1); ++position) positions.push_back(position);
  for (int64_t position = full(P); position < P + T; ++position) positions.push_back(position);
  return positions;
}

}  // namespace kvbook

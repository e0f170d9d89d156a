#include "common/kv_cache.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"
#include "common/ids.h"

namespace kvbook {

KVCache::KVCache(const ModelShape& shape) : shape_(shape) {
  for (const int64_t size :
       {shape.layers, shape.heads, shape.kv_heads, shape.head_size, shape.context, shape.vocabulary}) {
    TORCH_CHECK_VALUE(size > 0, "a model shape has only positive sizes, got ", size);
  }
}

KVCache::KVCache(const ModelShape& shape, int64_t rows) : KVCache(shape) {
  TORCH_CHECK_VALUE(rows >= 0, "there cannot be ", rows, " rows");
  ragged_ = true;
  fixed_rows_ = rows;
  lengths_.assign(rows, 0);
}

KVCache::KVCache(RowsAsIn inner) : KVCache(inner.other.shape_) {
  ragged_ = inner.other.ragged_;
  fixed_rows_ = inner.other.fixed_rows_;
  lengths_.assign(fixed_rows_, 0);
}

torch::Tensor KVCache::begin(const Step& step) {
  abandon();
  step_ = rows_of(step);
  step_tokens_ = step.ids.size(1);
  on_begin(step);
  updated_.assign(shape_.layers, false);
  open_ = true;
  return positions(step);
}

// ANCHOR: rows_of
KVCache::StepRows KVCache::rows_of(const Step& step) const {
  TORCH_CHECK_VALUE(step.ids.defined() && step.ids.dim() == 2 && step.ids.scalar_type() == torch::kInt64,
                    "ids must be int64 [B, T]");
  TORCH_CHECK_VALUE(step.ids.numel() > 0, "ids has shape ", step.ids.sizes(), ": there is no token in it");
  const int64_t B = step.ids.size(0), T = step.ids.size(1);
  TORCH_CHECK_VALUE(ragged_ || !(step.counts.defined() || step.rows.defined() || step.pad_left),
                    "the rows of this cache advance together: counts and rows go to one whose rows have lengths of "
                    "their own (07_ragged_batch)");
  TORCH_CHECK_VALUE(step.rows.defined() || lengths_.empty() || B == rows(), "the cache holds ", rows(),
                    " rows and this step has ", B, ": call reset() before another batch size",
                    ragged_ ? ", or name the rows that the step is about" : "");
  const auto numbers = [&](const torch::Tensor& given, const char* name) {
    TORCH_CHECK_VALUE(given.dim() == 1 && given.size(0) == B && given.scalar_type() == torch::kInt64, name,
                      " must be int64 [B = ", B, "]");
    return to_ids(given.unsqueeze(0));
  };
  StepRows of{std::vector<int64_t>(B), std::vector<int64_t>(B, T)};
  std::iota(of.rows.begin(), of.rows.end(), 0);
  if (step.rows.defined()) of.rows = numbers(step.rows, "rows");
  if (step.counts.defined()) of.counts = numbers(step.counts, "counts");

  const int64_t there = lengths_.empty() ? B : rows();
  std::vector<bool> named(there, false);
  for (const int64_t row : of.rows) {
    TORCH_CHECK_VALUE(0 <= row && row < there, "rows names row ", row, " of a cache with ", there);
    TORCH_CHECK_VALUE(!named[row], "rows names row ", row, " twice");
    named[row] = true;
  }
  for (const int64_t count : of.counts) {
    TORCH_CHECK_VALUE(0 <= count && count <= T, "counts has ", count, " where a row has ", T, " ids");
  }
  TORCH_CHECK_VALUE(*std::max_element(of.counts.begin(), of.counts.end()) > 0, "no row of this step has a token");
  return of;
}
// ANCHOR_END: rows_of

int64_t KVCache::length_after(const Step& step) const {
  const StepRows of = rows_of(step);
  int64_t longest = 0;
  for (size_t b = 0; b < of.rows.size(); ++b) {
    longest = std::max(longest, (lengths_.empty() ? 0 : lengths_[of.rows[b]]) + of.counts[b]);
  }
  return longest;
}

// ANCHOR: positions
torch::Tensor KVCache::positions(const Step& step) const {
  const int64_t B = step_size(), T = step_tokens_;
  bool alike = true;
  for (int64_t b = 0; b < B; ++b) alike = alike && held(b) == held(0) && step_count(b) == T;
  if (alike) return torch::arange(held(0), held(0) + T, step.ids.options());

  std::vector<int64_t> positions(B * T, 0);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t n = step_count(b), first = b * T + (step.pad_left ? T - n : 0);
    for (int64_t i = 0; i < n; ++i) positions[first + i] = held(b) + i;
  }
  return torch::tensor(positions, step.ids.options()).view({B, T});
}
// ANCHOR_END: positions

void KVCache::check_update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  TORCH_CHECK_VALUE(open_, "update() outside a forward: call begin() first");
  TORCH_CHECK_VALUE(0 <= layer && layer < shape_.layers, "layer ", layer, " of a model with ", shape_.layers);
  TORCH_CHECK_VALUE(!updated_[layer], "layer ", layer, " was updated twice in one forward");
  const std::vector<int64_t> expected = {step_size(), shape_.kv_heads, step_tokens_, shape_.head_size};
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
    if (lengths_.empty()) lengths_.assign(step_size(), 0);
    options_ = torch::TensorOptions().dtype(key.scalar_type()).device(key.device());
    knows_layout_ = true;
  }
  updated_[layer] = true;
}

void KVCache::commit() {
  TORCH_INTERNAL_ASSERT(open_, "commit() without begin()");
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    TORCH_INTERNAL_ASSERT(updated_[layer], "commit() before layer ", layer, " was updated");
  }
  on_commit();
  for (int64_t b = 0; b < step_size(); ++b) lengths_[step_row(b)] += step_count(b);
  open_ = false;
}

void KVCache::abandon() {
  if (!open_) return;
  open_ = false;
  on_abandon();
  if (binds_nothing()) forget_layout();
}

void KVCache::reset() {
  abandon();
  forget_layout();
}

void KVCache::truncate(int64_t length) {
  abandon();
  for (int64_t row = 0; row < std::max<int64_t>(rows(), 1); ++row) check_truncate(row, length);
  if (length == 0) return reset();
  if (std::all_of(lengths_.begin(), lengths_.end(), [&](int64_t held) { return held == length; })) return;
  std::fill(lengths_.begin(), lengths_.end(), length);
  on_truncate();
}

void KVCache::truncate(int64_t row, int64_t length) {
  TORCH_CHECK_VALUE(ragged_, "the rows of this cache advance together: truncate all of them");
  abandon();
  check_truncate(row, length);
  if (this->length(row) == length) return;
  lengths_[row] = length;
  on_truncate();
}

int64_t KVCache::adopt_prefix(int64_t row, const std::vector<int64_t>& prompt) {
  TORCH_CHECK_VALUE(!prompt.empty(), "there is no token in the prompt");
  abandon();
  const int64_t P = length(row);
  TORCH_CHECK_INDEX(P == 0, "row ", row, " holds ", P, " tokens: truncate it to 0 first");
  const int64_t adopted = on_adopt(row, prompt);
  if (adopted > 0) hold(row, adopted);
  return adopted;
}

void KVCache::hold(int64_t row, int64_t length) {
  TORCH_INTERNAL_ASSERT(0 <= row && row < rows(), "row ", row, " of ", rows());
  lengths_[row] = length;
}

void KVCache::check_truncate(int64_t row, int64_t length) const {
  const int64_t held = this->length(row), taken = held - length;
  TORCH_CHECK_INDEX(0 <= length && length <= held, "cannot truncate to ", length, " tokens: the cache holds ", held);
  if (length == 0) return;  // nothing is needed then
  const int64_t most = can_give_back(row);
  TORCH_CHECK_INDEX(taken <= most, "the last ", taken, " tokens cannot be taken back, at most ", most,
                    ": what a query at position ", length, " would see is no longer held; call reset() and feed the ",
                    length, " tokens again");
}

int64_t KVCache::can_give_back(int64_t row) const {
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    if (same_slots_as(layer) != layer) continue;
    const std::vector<int64_t> held = layer_slots(layer, row);
    const auto empty = std::count(held.begin(), held.end(), kEmptySlot);
    if (static_cast<int64_t>(held.size()) - empty != length(row)) return 0;
  }
  return length(row);
}

void KVCache::forget_layout() {
  lengths_.assign(fixed_rows_, 0);
  knows_layout_ = false;
}

bool KVCache::is_empty() const {
  return std::all_of(lengths_.begin(), lengths_.end(), [](int64_t length) { return length == 0; });
}

int64_t KVCache::length(int64_t row) const {
  if (row == 0 && lengths_.empty()) return 0;
  TORCH_CHECK_INDEX(0 <= row && row < rows(), "row ", row, " of a cache with ", rows(), " rows");
  return lengths_[row];
}

std::vector<int64_t> KVCache::slots(int64_t row) const {
  std::vector<int64_t> positions(length(row));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

bool KVCache::in_step(int64_t row) const {
  return open_ && std::find(step_.rows.begin(), step_.rows.end(), row) != step_.rows.end();
}

std::vector<int64_t> KVCache::columns(int64_t row) const {
  if (!in_step(row)) return {};
  const auto at = std::find(step_.rows.begin(), step_.rows.end(), row);
  std::vector<int64_t> positions = slots(row);
  positions.erase(std::remove(positions.begin(), positions.end(), kEmptySlot), positions.end());
  for (int64_t i = 0; i < step_count(at - step_.rows.begin()); ++i) positions.push_back(length(row) + i);
  return positions;
}

void KVCache::check_layer(int64_t layer) const {
  TORCH_CHECK_INDEX(0 <= layer && layer < shape_.layers, "layer ", layer, " of a model with ", shape_.layers);
}

int64_t KVCache::same_slots_as(int64_t layer) const {
  check_layer(layer);
  return 0;
}

std::vector<int64_t> KVCache::layer_slots(int64_t layer, int64_t row) const {
  check_layer(layer);
  return slots(row);
}

std::vector<int64_t> KVCache::layer_columns(int64_t layer, int64_t row) const {
  check_layer(layer);
  return columns(row);
}

int64_t key_value_bytes(const ModelShape& shape, int64_t rows, int64_t slots, int64_t bytes_per_element) {
  return 2 * shape.layers * rows * shape.kv_heads * slots * shape.head_size * bytes_per_element;
}

}  // namespace kvbook

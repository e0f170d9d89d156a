#include "chapters/07_ragged_batch/ragged_batch_cache.h"

#include <algorithm>

#include "chapters/07_ragged_batch/ragged_mask.h"
#include "common/axes.h"

namespace kvbook {

RaggedBatchCache::RaggedBatchCache(const ModelShape& shape, int64_t capacity, int64_t rows)
    : KVCache(shape, rows), capacity_(capacity) {
  TORCH_CHECK_VALUE(capacity > 0, "the capacity must be at least 1, not ", capacity);
}

// ANCHOR: on_begin
void RaggedBatchCache::on_begin(const Step& step) {
  const int64_t B = step_size(), T = new_tokens();
  std::vector<int64_t> rows, lengths, counts;
  bool neighbours = true;
  longest_ = 0;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t row = step_row(b), P = held(b), n = step_count(b);
    TORCH_CHECK_INDEX(P + n <= capacity_, "row ", row, " holds ", P, " of ", capacity_, " tokens and has no room for ",
                      n, " more: give the cache a larger capacity");
    neighbours = neighbours && row == step_row(0) + b;
    longest_ = std::max(longest_, P + n);
    rows.push_back(row);
    lengths.push_back(P);
    counts.push_back(n);
  }
  pad_left_ = step.pad_left;
  gather_ = neighbours ? torch::Tensor() : torch::tensor(rows, step.ids.options());
  visible_ = ragged_mask(lengths, counts, T, pad_left_, step.ids.device());
}
// ANCHOR_END: on_begin

// ANCHOR: update
KeyValues RaggedBatchCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) {
    const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, capacity_, shape().head_size};
    keys_ = torch::zeros(size, options());  // zeros: attention is handed short rows at the length of the longest
    values_ = torch::zeros(size, options());
  }
  const int64_t T = new_tokens();
  for (int64_t b = 0; b < step_size(); ++b) {
    const int64_t row = step_row(b), n = step_count(b), first = pad_left_ ? T - n : 0;
    const auto store = [&](const torch::Tensor& slots, const torch::Tensor& fresh) {  // [rows, H, C, D], [B, H, T, D]
      slots[row].narrow(kSeqAxis - 1, held(b), n).copy_(fresh[b].narrow(kSeqAxis - 1, first, n));
    };
    store(keys_[layer], key);
    store(values_[layer], value);
  }
  return {seen(keys_[layer]), seen(values_[layer]), visible_};
}

/// [rows, H, C, D] -> [B, H, S, D]: a view where the step's rows are neighbours, else a copy.
torch::Tensor RaggedBatchCache::seen(const torch::Tensor& slots) const {
  const torch::Tensor used = slots.narrow(kSeqAxis, 0, longest_);
  if (gather_.defined()) return used.index_select(kRowAxis, gather_);
  return used.narrow(kRowAxis, step_row(0), step_size());
}
// ANCHOR_END: update

// ANCHOR: memory
void RaggedBatchCache::on_abandon() {  // what was written lies past length(row): the next forward overwrites it
  visible_.reset();
  if (is_empty()) release();
}

void RaggedBatchCache::reset() {
  KVCache::reset();
  release();
}

void RaggedBatchCache::release() {
  keys_.reset();
  values_.reset();
  gather_.reset();
  visible_.reset();
}

int64_t RaggedBatchCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

std::vector<int64_t> RaggedBatchCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (keys_.defined()) positions.resize(capacity_, kEmptySlot);
  return positions;
}

std::vector<int64_t> RaggedBatchCache::columns(int64_t row) const {
  std::vector<int64_t> positions = KVCache::columns(row);
  if (in_step(row)) positions.resize(longest_, kEmptySlot);
  return positions;
}
// ANCHOR_END: memory

}  // namespace kvbook

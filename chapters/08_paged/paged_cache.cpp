#include "chapters/08_paged/paged_cache.h"

#include <algorithm>

#include "chapters/07_ragged_batch/ragged_mask.h"
#include "common/axes.h"
#include "common/ids.h"

namespace kvbook {
namespace {

constexpr int64_t kSlotAxis = 1;  // of one layer's [H, slots, D]
constexpr int64_t kMostSlots = int64_t{1} << 40;

}  // namespace

PagedCache::PagedCache(const ModelShape& shape, int64_t page, int64_t pool_pages, int64_t rows)
    : KVCache(shape, rows), page_(page), pool_pages_(pool_pages) {
  TORCH_CHECK_VALUE(page >= 1, "a page has room for at least 1 token, not ", page);
  TORCH_CHECK_VALUE(pool_pages >= 0, "a pool cannot have ", pool_pages, " pages");
  TORCH_CHECK_VALUE(page <= kMostSlots / std::max<int64_t>(pool_pages, 1), "a pool of ", pool_pages, " pages of ", page,
                    " tokens is more than can be counted here");
}

// ANCHOR: on_begin
void PagedCache::on_begin(const Step& step) {
  const int64_t B = step_size(), T = new_tokens();
  if (!tables_ || rows() == 0) make_tables();  // none, or those of a first step that was refused
  std::vector<int64_t> lengths, counts;
  std::vector<BlockTables::Append> appends;
  longest_ = 0;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t n = step_count(b);
    lengths.push_back(held(b));
    counts.push_back(n);
    longest_ = std::max(longest_, held(b) + n);
    const torch::Tensor ids = step.ids.narrow(0, b, 1).narrow(1, step.pad_left ? T - n : 0, n);
    appends.push_back({.row = step_row(b), .tokens = n > 0 ? to_ids(ids) : std::vector<int64_t>{}});
  }
  pad_left_ = step.pad_left;
  visible_ = ragged_mask(lengths, counts, T, pad_left_, step.ids.device());
  tables_->begin(std::move(appends));  // the last that can be refused
  try {
    gather_ = gathered_pages(step.ids.options());
  } catch (...) {  // no memory: the forward is not open yet, and nobody else would give the pages back
    tables_->abandon();
    throw;
  }
}

/// The block tables of the step's rows, behind one another; short ones are filled up with page 0, which the mask hides.
torch::Tensor PagedCache::gathered_pages(torch::TensorOptions where) const {
  const int64_t each = tables_->pages_for(longest_);
  std::vector<int64_t> pages;
  for (int64_t b = 0; b < step_size(); ++b) {
    const std::vector<int64_t>& table = tables_->pages(step_row(b));
    pages.insert(pages.end(), table.begin(), table.end());
    pages.resize((b + 1) * each, 0);
  }
  return torch::tensor(pages, where);
}
// ANCHOR_END: on_begin

// ANCHOR: update
KeyValues PagedCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!keys_.defined()) {
    const int64_t slots = tables_->pool().pages() * page_;
    const std::vector<int64_t> size = {shape().layers, shape().kv_heads, slots, shape().head_size};
    keys_ = torch::zeros(size, options());  // zeros: the last page of a row is gathered before it is full
    values_ = torch::zeros(size, options());
  }
  for (const torch::Tensor& slots : {keys_[layer], values_[layer]}) copy_shared(slots);
  store(keys_[layer], key);
  store(values_[layer], value);
  return {seen(keys_[layer]), seen(values_[layer]), visible_};
}

/// Copy on write: what counts of a shared page, before the copy is written to. slots: [H, pool pages · page, D].
void PagedCache::copy_shared(const torch::Tensor& slots) const {
  for (const BlockTables::Copy& copy : tables_->copies()) {
    slots.narrow(kSlotAxis, copy.to * page_, copy.tokens)
        .copy_(slots.narrow(kSlotAxis, copy.from * page_, copy.tokens));
  }
}

/// fresh: [B, H, T, D]. A piece of a row for every page that it reaches into.
void PagedCache::store(const torch::Tensor& slots, const torch::Tensor& fresh) const {
  for (int64_t b = 0; b < step_size(); ++b) {
    const int64_t P = held(b), n = step_count(b), padding = pad_left_ ? new_tokens() - n : 0;
    for (int64_t done = 0; done < n;) {
      const int64_t piece = std::min(n - done, page_ - (P + done) % page_);
      slots.narrow(kSlotAxis, tables_->slot(step_row(b), P + done), piece)
          .copy_(fresh[b].narrow(kSlotAxis, padding + done, piece));
      done += piece;
    }
  }
}

/// The pages of all rows of the step, behind one another: [H, B · pages · page, D] -> [B, H, S, D].
torch::Tensor PagedCache::seen(const torch::Tensor& slots) const {
  const int64_t H = shape().kv_heads, D = shape().head_size;
  const torch::Tensor pages = slots.view({H, -1, page_, D}).index_select(1, gather_);  // the copy that pages cost
  return pages.view({H, step_size(), -1, D}).transpose(0, 1).narrow(kSeqAxis, 0, longest_);
}
// ANCHOR_END: update

// ANCHOR: hooks
void PagedCache::on_commit() { tables_->commit(); }

void PagedCache::on_abandon() {
  tables_->abandon();
  if (binds_nothing()) release();
}

void PagedCache::on_truncate() {
  if (!tables_) return;
  for (int64_t row = 0; row < rows(); ++row) tables_->truncate(row, length(row));
}

int64_t PagedCache::on_adopt(int64_t row, const std::vector<int64_t>& prompt) {
  return tables_ ? tables_->adopt(row, prompt) : 0;
}

void PagedCache::fork(int64_t from, int64_t to) {
  abandon();
  const int64_t P = length(from);
  TORCH_CHECK_INDEX(length(to) == 0, "row ", to, " holds ", length(to), " tokens: truncate it to 0 first");
  if (P == 0) return;
  tables_->fork(from, to);
  hold(to, P);
}

bool PagedCache::binds_nothing() const {
  return !tables_ || (tables_->pool().used() == 0 && tables_->pool().cached() == 0);
}
// ANCHOR_END: hooks

void PagedCache::reset() {
  KVCache::reset();
  release();
}

void PagedCache::make_tables() {
  const int64_t there = std::max(rows(), step_size()), enough = there * pages_for_tokens(shape().context, page_);
  tables_ = std::make_unique<BlockTables>(there, page_, pool_pages_ > 0 ? pool_pages_ : enough);
}

void PagedCache::release() {
  tables_.reset();
  keys_.reset();
  values_.reset();
  gather_.reset();
  visible_.reset();
}

int64_t PagedCache::bytes() const { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

const BlockTables& PagedCache::tables() const {
  TORCH_CHECK(tables_ != nullptr, "there are no block tables before the first forward");
  return *tables_;
}

std::vector<int64_t> PagedCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (tables_) positions.resize(tables_->pages(row).size() * page_, kEmptySlot);
  return positions;
}

std::vector<int64_t> PagedCache::columns(int64_t row) const {
  std::vector<int64_t> positions = KVCache::columns(row);
  if (in_step(row)) positions.resize(longest_, kEmptySlot);
  return positions;
}

}  // namespace kvbook

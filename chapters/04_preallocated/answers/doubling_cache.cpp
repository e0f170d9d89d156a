#include "chapters/04_preallocated/answers/doubling_cache.h"

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/axes.h"

namespace kvbook {
namespace {

constexpr int64_t kSlotAxis = kSeqAxis + 1;  // of [L, B, H, C, D]

}  // namespace

// ANCHOR: cost
int64_t doubled_slots(int64_t tokens, int64_t first) {
  TORCH_CHECK_VALUE(first > 0, "there must be at least 1 slot at first, not ", first);
  int64_t slots = first;
  while (slots < tokens) slots *= 2;
  return slots;
}

int64_t tokens_copied_by_growing(int64_t tokens, int64_t first) { return doubled_slots(tokens, first) - first; }
// ANCHOR_END: cost

DoublingCache::DoublingCache(const ModelShape& shape, int64_t first) : KVCache(shape), first_(first) {
  TORCH_CHECK_VALUE(first > 0, "there must be at least 1 slot at first, not ", first);
}

int64_t DoublingCache::Buffers::slots() const { return keys.defined() ? keys.size(kSlotAxis) : 0; }

void DoublingCache::on_begin(const Step& step) {
  visible_.reset();
  const int64_t T = step.ids.size(1);
  if (T > 1) visible_ = causal_mask(length(), T, step.ids.device());
}

// ANCHOR: grow
DoublingCache::Buffers DoublingCache::with_slots(int64_t slots) const {
  const std::vector<int64_t> size = {shape().layers, rows(), shape().kv_heads, slots, shape().head_size};
  Buffers larger{torch::empty(size, options()), torch::empty(size, options())};
  const int64_t P = length();
  if (P > 0) {  // what is committed moves over, all layers at once
    larger.keys.narrow(kSlotAxis, 0, P).copy_(now_.keys.narrow(kSlotAxis, 0, P));
    larger.values.narrow(kSlotAxis, 0, P).copy_(now_.values.narrow(kSlotAxis, 0, P));
  }
  return larger;
}

KeyValues DoublingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  const int64_t P = length(), T = new_tokens();
  if (P + T > now_.slots()) {
    Buffers larger = with_slots(doubled_slots(P + T, first_));
    before_ = std::exchange(now_, std::move(larger));
  }
  const torch::Tensor keys = now_.keys[layer], values = now_.values[layer];
  keys.narrow(kSeqAxis, P, T).copy_(key);
  values.narrow(kSeqAxis, P, T).copy_(value);
  return {keys.narrow(kSeqAxis, 0, P + T), values.narrow(kSeqAxis, 0, P + T), visible_};
}

void DoublingCache::on_commit() { before_.reset(); }

void DoublingCache::on_abandon() {
  if (before_) now_ = std::move(*before_);
  before_.reset();
}
// ANCHOR_END: grow

void DoublingCache::reset() {
  KVCache::reset();
  now_ = {};
}

int64_t DoublingCache::bytes() const { return now_.slots() > 0 ? now_.keys.nbytes() + now_.values.nbytes() : 0; }

}  // namespace kvbook

#include "common/tracing_cache.h"

#include <algorithm>

#include "common/axes.h"
#include "common/ids.h"

namespace kvbook {

void TracingCache::on_begin(const Step& step) {
  traced_.clear();
  pad_left_ = step.pad_left;
  const int64_t T = new_tokens(), shown = ragged() ? step_size() : 1;
  for (int64_t b = 0; b < shown; ++b) {
    const int64_t row = step_row(b), n = step_count(b);
    if (n == 0) continue;
    TracedForward forward{.first_position = held(b),
                          .ids = to_ids(step.ids.narrow(0, b, 1).narrow(1, pad_left_ ? T - n : 0, n))};
    if (ragged() && std::max(rows(), step_size()) > 1) forward.row = row;
    traced_.push_back({row, b, n, std::move(forward)});
  }
  ForwardingCache::on_begin(step);
}

KeyValues TracingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  if (layer > 0) return kv;
  for (auto& [row, b, n, forward] : traced_) {
    forward.keys = columns(row);
    const int64_t T = new_tokens(), S = kv.keys.size(kSeqAxis);
    torch::Tensor visible = kv.visible.defined() ? kv.visible : torch::ones({T, S}, torch::kBool);
    if (visible.dim() == 4) visible = visible[b][0];
    forward.visible = visible.narrow(0, pad_left_ ? T - n : 0, n).clone();
  }
  return kv;
}

void TracingCache::on_commit() {
  ForwardingCache::on_commit();
  for (auto& traced : traced_) {
    traced.forward.after = slots(traced.row);
    traced.forward.bytes = bytes();
    on_forward_(traced.forward);
  }
}

}  // namespace kvbook

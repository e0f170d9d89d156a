#include "common/tracing_cache.h"

#include "common/axes.h"
#include "common/ids.h"

namespace kvbook {

void TracingCache::on_begin(const Step& step) {
  forward_ = {.first_position = length(), .ids = to_ids(step.ids.narrow(0, 0, 1)), .before = slots()};
  ForwardingCache::on_begin(step);
}

KeyValues TracingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  if (layer == 0) {
    const bool all = !kv.visible.defined();
    forward_.visible = all ? torch::ones({new_tokens(), kv.keys.size(kSeqAxis)}, torch::kBool) : kv.visible.clone();
  }
  return kv;
}

void TracingCache::on_commit() {
  ForwardingCache::on_commit();
  forward_.after = slots();
  forward_.bytes = bytes();
  on_forward_(forward_);
}

}  // namespace kvbook

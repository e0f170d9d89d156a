#include "tests/support/copy_counting_cache.h"

#include "tests/support/operation_counter.h"

namespace kvbook {

void CopyCountingCache::on_begin(const Step& step) {
  const OperationCounter counter;
  ForwardingCache::on_begin(step);
  in_this_forward_ = counter.bytes_copied;
}

KeyValues CopyCountingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const OperationCounter counter;
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  in_this_forward_ += counter.bytes_copied;
  return kv;
}

void CopyCountingCache::on_commit() {
  const OperationCounter counter;
  ForwardingCache::on_commit();
  copied_.push_back(in_this_forward_ + counter.bytes_copied);
}

}  // namespace kvbook

#include "tests/support/copy_meter.h"

#include <ATen/record_function.h>

namespace kvbook {
namespace {

thread_local int64_t copied_on_this_thread = 0;
thread_local int64_t meters = 0;  // alive on this thread: one callback counts for all
thread_local at::CallbackHandle callback;

int64_t bytes_of(const c10::IValue& tensors) {
  if (tensors.isTensor()) return static_cast<int64_t>(tensors.toTensor().nbytes());
  int64_t sum = 0;
  for (const torch::Tensor& tensor : tensors.toTensorVector()) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

/// LibTorch calls it at the start of every operator.
std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& call) {
  const std::string name = call.name();
  if (name == "aten::copy_" || name == "aten::cat") copied_on_this_thread += bytes_of(call.inputs()[0]);
  if (name == "aten::index_copy_") copied_on_this_thread += bytes_of(call.inputs()[3]);  // self, dim, index, source
  if (name == "aten::index_put_") copied_on_this_thread += bytes_of(call.inputs()[2]);   // self, indices, values
  return nullptr;
}

}  // namespace

CopyMeter::CopyMeter() : before_(copied_on_this_thread) {
  if (meters++ > 0) return;
  callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

CopyMeter::~CopyMeter() {
  if (--meters == 0) at::removeCallback(callback);
}

int64_t CopyMeter::bytes() const { return copied_on_this_thread - before_; }

void CopyCountingCache::on_begin(const Step& step) {
  const CopyMeter meter;
  ForwardingCache::on_begin(step);
  in_this_forward_ = meter.bytes();
}

KeyValues CopyCountingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const CopyMeter meter;
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  in_this_forward_ += meter.bytes();
  return kv;
}

void CopyCountingCache::on_commit() {
  const CopyMeter meter;
  ForwardingCache::on_commit();
  copied_.push_back(in_this_forward_ + meter.bytes());
}

}  // namespace kvbook

#include "tests/support/operation_counter.h"

#include <torch/types.h>

#include <string_view>

namespace kvbook {
namespace {

thread_local OperationCounter* counter = nullptr;

}  // namespace

OperationCounter::OperationCounter() {
  TORCH_CHECK(counter == nullptr, "there is an OperationCounter on this thread already");
  counter = this;
  const auto on_start = [](const at::RecordFunction& operation) -> std::unique_ptr<at::ObserverContext> {
    if (counter) counter->note(operation);
    return nullptr;
  };
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

OperationCounter::~OperationCounter() {
  at::removeCallback(handle_);
  counter = nullptr;
}

void OperationCounter::note(const at::RecordFunction& operation) {
  const std::string_view name = operation.name();
  const auto tensor = [&](size_t i) { return operation.inputs()[i].toTensor(); };
  if (name == "aten::mm" || name == "aten::bmm") {  // [.., n, k] x [.., k, m]
    multiply_adds += tensor(0).numel() * tensor(1).size(-1);
  } else if (name == "aten::addmm" || name == "aten::baddbmm") {  // the first is what is added
    multiply_adds += tensor(1).numel() * tensor(2).size(-1);
  } else if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") {  // scores, then the mix of the values
    multiply_adds += 2 * tensor(0).numel() * tensor(1).size(-2);
  } else if (name == "aten::copy_") {
    bytes_copied += static_cast<int64_t>(tensor(0).nbytes());
  } else if (name == "aten::index_copy_") {  // self, dim, index, source
    bytes_copied += static_cast<int64_t>(tensor(3).nbytes());
  } else if (name == "aten::index_put_") {  // self, indices, values
    bytes_copied += static_cast<int64_t>(tensor(2).nbytes());
  } else if (name == "aten::index_select" || name == "aten::gather") {  // self, dim, index
    const bool whole_rows = name == "aten::index_select";
    const int64_t size = whole_rows ? tensor(0).size(operation.inputs()[1].toInt()) : tensor(0).numel();
    const int64_t elements = size == 0 ? 0 : tensor(0).numel() / size * tensor(2).numel();
    bytes_copied += elements * static_cast<int64_t>(tensor(0).element_size());
  } else if (name == "aten::cat") {
    for (const torch::Tensor& part : operation.inputs()[0].toTensorVector()) {
      bytes_copied += static_cast<int64_t>(part.nbytes());
    }
  }
}

}  // namespace kvbook

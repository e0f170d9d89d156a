// Counts what LibTorch does instead of timing it: the same number on every machine.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>

namespace kvbook {

/// Counts the operations that LibTorch runs on this thread while the object lives. One at a time.
class OperationCounter {
 public:
  OperationCounter();
  ~OperationCounter();
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

  int64_t multiply_adds = 0;  // of matrix products and fused attention, masked scores too
  int64_t bytes_copied = 0;   // written by copy_ (clone, contiguous and to call it), cat, index_copy_, index_put_,
                              // index_select and gather; not by what has its own output, as arithmetic

 private:
  void note(const at::RecordFunction& operation);

  at::CallbackHandle handle_;
};

}  // namespace kvbook

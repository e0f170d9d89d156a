// Code that makes everything anew, in silence, when the batch size changes.
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

/// The seam of this book leaves a cache no place for this fault, so here the model has it: begin() compares the rows.
class ResetsOnAnotherBatch final : public Gpt2Impl {
 public:
  using Gpt2Impl::Gpt2Impl;

  // ANCHOR: fault
  torch::Tensor hidden(const Step& step, KVCache& cache) override {
    if (cache.length() > 0 && step.ids.size(0) != rows_)
      cache.reset();  // wrong: forgets what it was told to go on with
    rows_ = step.ids.size(0);
    return Gpt2Impl::hidden(step, cache);
  }
  // ANCHOR_END: fault

 private:
  int64_t rows_ = 0;
};

}  // namespace

Failure resets_on_another_batch() {
  return {.chapter = broken("04_preallocated", "resets_on_another_batch", "forgets everything when the batch changes"),
          .check = "Case10AnotherBatchSizeIsRefusedByNameAndNothingIsWritten",
          .symptom = "no error, and an answer that knows nothing of what was said before",
          .cure = "refuse another batch size and name reset(): common/kv_cache.h; chapter 2",
          .scene = {.with_second_row = true},
          .make_model = gpt2_of<ResetsOnAnotherBatch>};
}

}  // namespace kvbook

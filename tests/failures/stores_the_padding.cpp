// A batch whose padding is hidden in its own forward, and then counts as tokens.
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct OwnedRows {
  RaggedBatchCache batch;
};

class StoresThePadding final : private OwnedRows, public ForwardingCache {
 public:
  StoresThePadding(const ModelShape& shape, int64_t rows)
      : OwnedRows{RaggedBatchCache(shape, shape.context, rows)}, ForwardingCache(batch) {}

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    Step whole = step;
    whole.counts.reset();  // wrong: every row has T tokens now, the short ones with padding among them
    ForwardingCache::on_begin(whole);
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure stores_the_padding() {
  return {.chapter = broken("07_ragged_batch", "stores_the_padding", "takes padding for tokens",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<StoresThePadding>(shape, options.rows);
                            }),
          .check = "Case27EachRowEqualsItsSoloRunAndNotOnlyTheLongest",
          .symptom = "a short prompt is answered otherwise beside a long one",
          .cure = "store a row's own tokens only, and count these: chapter 7",
          .scene = {.new_tokens = 40,
                    .prompt = "Once upon a time",
                    .beside = "There was once a clever boy named Max, who could make anything."},
          .suite = "RaggedConformance"};
}

}  // namespace kvbook

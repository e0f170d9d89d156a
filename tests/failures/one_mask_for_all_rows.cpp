// A batch whose mask is that of its longest row.
#include "chapters/07_ragged_batch/ragged_batch_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct RowsWithin {
  RaggedBatchCache batch;
};

class OneMaskForAllRows final : private RowsWithin, public ForwardingCache {
 public:
  OneMaskForAllRows(const ModelShape& shape, int64_t rows)
      : RowsWithin{RaggedBatchCache(shape, shape.context, rows)}, ForwardingCache(batch) {}

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    KeyValues kv = ForwardingCache::update(layer, key, value);
    if (kv.visible.defined()) {  // wrong: short rows see slots behind their end, and empty ones get weight
      kv.visible = kv.visible.any(kRowAxis, /*keepdim=*/true).expand_as(kv.visible);
    }
    return kv;
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure one_mask_for_all_rows() {
  return {.chapter = broken("07_ragged_batch", "one_mask_for_all_rows", "has one mask for all rows",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<OneMaskForAllRows>(shape, options.rows);
                            }),
          .check = "Case27EachRowEqualsItsSoloRunAndNotOnlyTheLongest",
          .symptom = "a short prompt is answered otherwise beside a long one",
          .cure = "a mask a row, made from that row's length: chapter 7",
          .scene = {.new_tokens = 40,
                    .prompt = "Once upon a time",
                    .beside = "There was once a clever boy named Max, who could make anything."},
          .suite = "RaggedConformance"};
}

}  // namespace kvbook

// A causal mask for a chunk that forgets that the cache holds something.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class MaskWithoutThePast final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    PreallocatedCache::on_begin(step);
    const int64_t P = length(), T = step.ids.size(1);
    if (T > 1) visible_ = torch::ones({T, P + T}, torch::kBool).tril();  // wrong: j <= i, and not j <= P + i
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure mask_without_the_past() {
  return {.chapter = broken("04_preallocated", "mask_without_the_past", "makes a triangle that begins at the first key",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<MaskWithoutThePast>(shape, options.capacity);
                            }),
          .check = "Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass",
          .symptom = "right with the prompt fed whole, wrong in chunks and in a second turn",
          .cure = "a mask that knows the offset: chapter 3",
          .scene = {.chunk = 8}};
}

}  // namespace kvbook

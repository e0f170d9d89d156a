// A prompt whose tokens see those after them.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class PrefillWithoutAMask final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    PreallocatedCache::on_begin(step);
    visible_.reset();  // wrong: right for one token only
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure prefill_without_a_mask() {
  return {
      .chapter = broken("04_preallocated", "prefill_without_a_mask", "lets the prompt's tokens see later ones",
                        [](const ModelShape& shape, const CacheOptions& options) {
                          return std::make_unique<PrefillWithoutAMask>(shape, options.capacity);
                        }),
      .check = "Case02ALaterTokenDoesNotMoveEarlierLogits",
      .symptom = "right token by token, fluent and wrong with the prompt fed whole",
      .cure = "a causal mask for every chunk of two or more: chapters 2 and 3",
      .scene = {.prompt = "In a small house by the sunny castle lived a brave boy named Noah. His teacher gave him a "
                          "tiny golden button, and it made him very happy."}};
}

}  // namespace kvbook

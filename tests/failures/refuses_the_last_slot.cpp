// A room check that is off by one.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class RefusesTheLastSlot final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    const int64_t P = length(), T = step.ids.size(1);
    TORCH_CHECK_INDEX(P + T < capacity_, "no room for ", T, " more than ", P, " tokens");  // wrong: P + T == C fits
    PreallocatedCache::on_begin(step);
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure refuses_the_last_slot() {
  return {.chapter = broken("04_preallocated", "refuses_the_last_slot", "takes C - 1 tokens into C slots",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<RefusesTheLastSlot>(shape, options.capacity);
                            }),
          .check = "Case05GenerationEndsWithTheContext",
          .symptom = "an answer that should just fit is refused one token before its end",
          .cure = "C slots take C tokens, and the last new token is never fed: chapter 4",
          .scene = {.capacity = 54}};
}

}  // namespace kvbook

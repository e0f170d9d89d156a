// A full cache that goes on in silence, over its last slot.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class OverwritesTheLastSlot final : public PreallocatedCache {
 public:
  using PreallocatedCache::PreallocatedCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    const int64_t T = new_tokens();
    if (length() + T <= capacity_) return PreallocatedCache::update(layer, key, value);
    check_update(layer, key, value);
    keys_[layer].narrow(kSeqAxis, capacity_ - T, T).copy_(key);  // wrong: other tokens lie there
    values_[layer].narrow(kSeqAxis, capacity_ - T, T).copy_(value);
    return {keys_[layer], values_[layer], visible_};
  }

 protected:
  void on_begin(const Step& step) override {
    visible_.reset();
    if (length() + step.ids.size(1) <= capacity_) PreallocatedCache::on_begin(step);  // wrong: else nothing is refused
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure overwrites_the_last_slot() {
  return {.chapter = broken("04_preallocated", "overwrites_the_last_slot", "writes over its last slot when it is full",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<OverwritesTheLastSlot>(shape, options.capacity);
                            }),
          .check = "Case05AFullCacheRefusesAnotherTokenAndKeepsWhatItHolds",
          .symptom = "no error, and text that goes wrong near the end of the room",
          .cure = "refuse before anything is written (chapter 4), or evict by a rule (chapter 5)",
          .scene = {.capacity = 38}};
}

}  // namespace kvbook

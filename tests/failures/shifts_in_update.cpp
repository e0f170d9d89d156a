// A window that makes room inside update, so that a forward that is tried again shifts again.
#include "chapters/05_sliding_window/sliding_window_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

/// Between forwards all W slots may be filled; chapter 5 keeps the last one free.
class ShiftsInUpdate final : public SlidingWindowCache {
 public:
  using SlidingWindowCache::SlidingWindowCache;

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    if (full_) {  // wrong: the oldest committed key is gone before it is known that the forward succeeds
      for (const torch::Tensor& slots : {keys_[layer], values_[layer]}) {
        slots.narrow(kSeqAxis, 0, window_ - 1).copy_(slots.narrow(kSeqAxis, 1, window_ - 1).clone());
      }
    }
    return SlidingWindowCache::update(layer, key, value);
  }
  // ANCHOR_END: fault

 protected:
  void on_begin(const Step& step) override {
    if (length() == 0) full_ = false;
    SlidingWindowCache::on_begin(step);
  }
  void on_commit() override {
    full_ = kept() + new_tokens() == window_;
    if (!full_) SlidingWindowCache::on_commit();
  }

 private:
  bool full_ = false;
};

}  // namespace

Failure shifts_in_update() {
  return {
      .chapter = broken("05_sliding_window", "shifts_in_update", "shifts in update, and again when it is tried again",
                        [](const ModelShape& shape, const CacheOptions& options) {
                          return std::make_unique<ShiftsInUpdate>(shape, options.window);
                        }),
      .check = "Case41ARetryAfterAFaultEqualsTheRunWithoutIt",
      .symptom = "right until a forward fails and is tried again",
      .cure = "evict in on_commit, once the forward has succeeded: chapter 5",
      .scene = {.new_tokens = 60, .window = 12, .with_faults = true}};
}

}  // namespace kvbook

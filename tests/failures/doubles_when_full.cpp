// A buffer that doubles when it is full, and copies everything then.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

class DoublesWhenFull final : public PreallocatedCache {
 public:
  explicit DoublesWhenFull(const ModelShape& shape) : PreallocatedCache(shape, /*capacity=*/4) {}

 protected:
  // ANCHOR: fault
  void on_begin(const Step& step) override {
    while (capacity_ < length() + step.ids.size(1)) capacity_ *= 2;
    for (torch::Tensor* slots : {&keys_, &values_}) {
      if (slots->defined() && slots->size(3) < capacity_) *slots = grown(*slots);  // wrong: copies all P tokens at once
    }
    PreallocatedCache::on_begin(step);
  }
  // ANCHOR_END: fault

 private:
  torch::Tensor grown(const torch::Tensor& slots) const {  // [L, B, H, C, D] with more of C
    std::vector<int64_t> size = slots.sizes().vec();
    size[3] = capacity_;
    const torch::Tensor larger = torch::empty(size, slots.options());
    larger.narrow(3, 0, length()).copy_(slots.narrow(3, 0, length()));
    return larger;
  }
};

}  // namespace

Failure doubles_when_full() {
  return {.chapter = broken(
              "04_preallocated", "doubles_when_full", "doubles its buffers when they are full",
              [](const ModelShape& shape, const CacheOptions&) { return std::make_unique<DoublesWhenFull>(shape); }),
          .check = "BytesCopiedAStepAreThoseOfTheFormula",
          .symptom = "a step now and then that takes many times as long, and twice the memory in it",
          .cure = "make the buffers once: chapter 4; a window that shifts pays at every step: chapter 5",
          .scene = {.window = 36, .shows_copies = true}};
}

}  // namespace kvbook

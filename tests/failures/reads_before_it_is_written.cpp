// New tokens go to slow memory all at once at commit, and the first layer is fetched as early as possible.
#include "tests/failures/failure.h"
#include "tests/failures/slow_memory_cache.h"

namespace kvbook {
namespace {

class ReadsBeforeItIsWritten final : public SlowMemoryCache {
 public:
  explicit ReadsBeforeItIsWritten(const ModelShape& shape) : SlowMemoryCache(shape, 0), fresh_(shape.layers) {}

 protected:
  void store(int64_t layer, const torch::Tensor& fresh) override { fresh_[layer] = fresh; }

  // ANCHOR: fault
  void on_commit() override {
    fetch(0, length() + new_tokens());  // wrong: the new tokens are not there yet
    for (int64_t layer = 0; layer < shape().layers; ++layer) write_slow(layer, fresh_[layer]);
    SlowMemoryCache::on_commit();
  }
  // ANCHOR_END: fault

 private:
  std::vector<torch::Tensor> fresh_;  // a layer each
};

}  // namespace

Failure reads_before_it_is_written() {
  return {.chapter = broken("11_offload", "reads_before_it_is_written", "fetches what is still to be written",
                            [](const ModelShape& shape, const CacheOptions&) {
                              return std::make_unique<ReadsBeforeItIsWritten>(shape);
                            }),
          .check = "Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass",
          .symptom = "the first layer does not know what was fed last",
          .cure = "one queue for both ways, the write before the fetch: chapter 11"};
}

}  // namespace kvbook

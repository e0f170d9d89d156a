#include "tests/workshop/steps.h"

#include "tests/workshop/finished_cache.h"
#include "tests/workshop/step_1.h"
#include "tests/workshop/step_2.h"
#include "tests/workshop/step_3.h"

namespace kvbook {
namespace {

/// What workshop/my_cache.h does before a reader has changed it.
class Starter final : public KVCache {
 public:
  Starter(const ModelShape& shape, const CacheOptions&) : KVCache(shape) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    TORCH_CHECK_NOT_IMPLEMENTED(false, "update() is not written yet");
  }
  int64_t bytes() const override { return 0; }
};

template <typename Cache>
Chapter step(const std::string& name, const std::string& change) {
  return {.name = name, .change = change, .make_cache = [](const ModelShape& shape, const CacheOptions& options) {
            return std::make_unique<Cache>(shape, options);
          }};
}

}  // namespace

std::vector<Chapter> workshop_steps() {
  return {step<Starter>("starter", "nothing is written yet"),
          step<step_1::MyCache>("step_1", "keys and values are joined, a prompt is masked"),
          step<step_2::MyCache>("step_2", "and given back: chapter 2"),
          step<step_3::MyCache>("step_3", "a mask that knows the past: chapter 3"),
          step<finished::MyCache>("finished", "buffers made once, written in place: chapter 4")};
}

}  // namespace kvbook

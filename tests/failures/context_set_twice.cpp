// The context length, written down a second time.
#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

// ANCHOR: fault
constexpr int64_t kContext = 1024;  // wrong: the model's config.json has it too, and says 512

std::unique_ptr<KVCache> make_cache(const ModelShape& shape, const CacheOptions&) {
  ModelShape with_own_context = shape;
  with_own_context.context = kContext;
  return std::make_unique<PreallocatedCache>(with_own_context, kContext);
}
// ANCHOR_END: fault

}  // namespace

Failure context_set_twice() {
  return {.chapter = broken("04_preallocated", "context_set_twice", "has a context length of its own", make_cache),
          .check = "Case05GenerationEndsWithTheContext",
          .symptom = "a refusal here; elsewhere memory never used, or positions without an embedding",
          .cure = "one source, config.json; the model compares the cache's shape with its own: chapter 4"};
}

}  // namespace kvbook

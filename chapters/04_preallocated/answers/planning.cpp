#include "chapters/04_preallocated/answers/planning.h"

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: planning
int64_t sequences_that_fit(int64_t memory_bytes, int64_t weight_bytes, const ModelShape& shape, int64_t tokens,
                           int64_t bytes_per_element) {
  TORCH_CHECK_VALUE(tokens > 0 && bytes_per_element > 0, "a sequence has tokens, and a number has bytes");
  TORCH_CHECK_VALUE(memory_bytes >= 0 && weight_bytes >= 0, "bytes are not negative");
  const int64_t free_bytes = std::max<int64_t>(0, memory_bytes - weight_bytes);
  return free_bytes / key_value_bytes(shape, /*rows=*/1, tokens, bytes_per_element);
}
// ANCHOR_END: planning

}  // namespace kvbook

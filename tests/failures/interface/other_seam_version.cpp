// A cache whose signatures are right and which was written for calls that meant something else.
#include "common/kv_cache.h"

// ANCHOR: fault
static_assert(kvbook::kSeamVersion == 0, "this cache was written for version 0 of the seam: read common/kv_cache.h");

class OtherSeamVersion final : public kvbook::KVCache {
 public:
  using KVCache::KVCache;
  kvbook::KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  int64_t bytes() const override;
};
// ANCHOR_END: fault

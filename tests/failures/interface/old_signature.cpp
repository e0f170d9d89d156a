// A cache written when update() had its arguments in another order.
#include "common/kv_cache.h"

// ANCHOR: fault
class OldSignature final : public kvbook::KVCache {
 public:
  using KVCache::KVCache;
  kvbook::KeyValues update(const torch::Tensor& key, const torch::Tensor& value, int64_t layer) override;
  int64_t bytes() const override;
};
// ANCHOR_END: fault

// Your own KV cache. `make workshop` says which of its promises it keeps; README.md beside this file goes with you.
#pragma once

#include "common/axes.h"
#include "common/chapter.h"
#include "common/kv_cache.h"

namespace kvbook {

static_assert(kSeamVersion == 1, "the seam means something else than when this file was begun: read common/kv_cache.h");

class MyCache final : public KVCache {
 public:
  // `options` has the window W and the capacity C that are asked for. A cache that grows needs neither.
  MyCache(const ModelShape& shape, const CacheOptions& options) : KVCache(shape), options_(options) {}

  // Wanted: remember the key and the value of this layer's T new tokens, [B, H_kv, T, D], and return all keys and
  // values that they may attend to, [B, H_kv, S, D], with a mask `visible` where not every new token may see every key.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    TORCH_CHECK_NOT_IMPLEMENTED(false, "update() is not written yet");
  }

  // Wanted: nothing is remembered any more, and no memory is held.
  void reset() override { KVCache::reset(); }

  // Wanted: the bytes of the keys and values that are held.
  int64_t bytes() const override { return 0; }

  // Optional, for --trace: which position lies in which slot, if it is not simply one slot a token, in order.
  // std::vector<int64_t> slots(int64_t row = 0) const override;

 protected:
  // Wanted: refuse what there is no room for, and prepare what is the same for all layers. length() tokens are held.
  void on_begin(const Step& step) override {}

  // Wanted, only of a cache that evicts: forget what no later token will see. length() still is the old one.
  void on_commit() override {}

  // Wanted: be as before on_begin. Some layers may have been updated, others not.
  void on_abandon() override {}

 private:
  CacheOptions options_;
};

}  // namespace kvbook

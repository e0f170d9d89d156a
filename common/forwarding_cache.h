// A cache that passes everything on to another one: the base of those that watch, time or disturb it.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

/// Same answers, lengths and errors as `inner`, which must outlive this object and be used through it only.
class ForwardingCache : public KVCache {
 public:
  explicit ForwardingCache(KVCache& inner) : KVCache(inner.shape()), inner_(inner) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    return inner_.update(layer, key, value);
  }
  void reset() override {
    KVCache::reset();
    inner_.reset();
  }
  int64_t bytes() const override { return inner_.bytes(); }
  std::vector<int64_t> slots(int64_t row = 0) const override { return inner_.slots(row); }

 protected:
  void on_begin(const Step& step) override { inner_.begin(step); }
  void on_commit() override { inner_.commit(); }
  void on_abandon() override { inner_.abandon(); }

 private:
  KVCache& inner_;
};

}  // namespace kvbook

// A plain form of chapter 11's cache, without a file and without a thread, for failures to differ from.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

/// The first `staying` layers have a buffer each; the others lie in `slow_` and come into two more buffers in turn.
class SlowMemoryCache : public KVCache {
 public:
  SlowMemoryCache(const ModelShape& shape, int64_t staying);

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override { return fast_.defined() ? fast_.nbytes() : 0; }

 protected:
  virtual void store(int64_t layer, const torch::Tensor& fresh);  ///< the new tokens' [2, B, H, T, D] into slow memory
  virtual void fetch_ahead(int64_t) {}                            ///< before the layer's attention
  void on_begin(const Step& step) override;
  void on_commit() override { visible_.reset(); }
  void on_abandon() override;

  int64_t buffer_of(int64_t layer) const { return layer < staying_ ? layer : staying_ + (layer - staying_) % 2; }
  void fetch(int64_t layer, int64_t tokens);
  void write_slow(int64_t layer, const torch::Tensor& fresh);

  int64_t staying_;
  torch::Tensor slow_, fast_;       // [L, 2, B, H, C, D], [staying + 2, 2, B, H, C, D]
  std::vector<int64_t> in_buffer_;  // the layer whose tokens lie there, -1: none
  torch::Tensor visible_;
};

}  // namespace kvbook

// A cache that passes everything on to another one: the base of those that watch, time or disturb it.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

/// Same answers, lengths and errors as `inner`, which must outlive this object and be used through it only.
class ForwardingCache : public KVCache {
 public:
  explicit ForwardingCache(KVCache& inner) : KVCache(RowsAsIn{inner}), inner_(inner) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    return inner_.update(layer, key, value);
  }
  void reset() override {
    KVCache::reset();
    inner_.reset();
  }
  int64_t bytes() const override { return inner_.bytes(); }
  bool binds_nothing() const override { return inner_.binds_nothing(); }
  int64_t can_give_back(int64_t row = 0) const override { return inner_.can_give_back(row); }
  std::vector<int64_t> slots(int64_t row = 0) const override { return inner_.slots(row); }
  std::vector<int64_t> columns(int64_t row = 0) const override { return inner_.columns(row); }
  int64_t same_slots_as(int64_t layer) const override { return inner_.same_slots_as(layer); }
  std::vector<int64_t> layer_slots(int64_t layer, int64_t row = 0) const override {
    return inner_.layer_slots(layer, row);
  }
  std::vector<int64_t> layer_columns(int64_t layer, int64_t row = 0) const override {
    return inner_.layer_columns(layer, row);
  }

 protected:
  void on_begin(const Step& step) override { inner_.begin(step); }
  void on_commit() override { inner_.commit(); }
  void on_abandon() override { inner_.abandon(); }
  void on_truncate() override {
    if (!ragged()) return inner_.truncate(length());
    for (int64_t row = 0; row < rows(); ++row) {
      if (length(row) < inner_.length(row)) inner_.truncate(row, length(row));
    }
  }

  int64_t on_adopt(int64_t row, const std::vector<int64_t>& prompt) override {
    return inner_.adopt_prefix(row, prompt);
  }

 private:
  KVCache& inner_;
};

}  // namespace kvbook

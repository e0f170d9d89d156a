// A cache that tells a listener what each forward did to it.
#pragma once

#include "common/forwarding_cache.h"
#include "common/trace.h"

namespace kvbook {

/// Same answers as `inner`. The listener hears of every forward once it is committed, and of no other.
class TracingCache final : public ForwardingCache {
 public:
  TracingCache(KVCache& inner, ForwardListener on_forward)
      : ForwardingCache(inner), on_forward_(std::move(on_forward)) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;

 private:
  std::vector<int64_t> layers_like(int64_t layer) const;  // empty: all

  ForwardListener on_forward_;
  struct TracedRow {
    int64_t row, step_row, count;  // of the cache, of the step, its tokens
    int64_t layer;                 // the first of those that it is about
    TracedForward forward;
  };
  bool pad_left_ = false;
  std::vector<TracedRow> traced_;  // the open forward
};

}  // namespace kvbook

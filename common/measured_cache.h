// A cache with a stop-watch and a memory meter around it.
#pragma once

#include <optional>
#include <vector>

#include "common/allocation_meter.h"
#include "common/forwarding_cache.h"

namespace kvbook {

/// Same answers as `inner`; notes for each forward how long the cache's own work took, and the most memory that
/// tensors made inside the cache held at once. On one thread only one forward at a time can be measured.
class MeasuredCache final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;

  struct Forward {
    double seconds = 0;      // in begin, all updates and commit
    int64_t peak_bytes = 0;  // keys and values held before, plus the greatest growth: what was made inside the cache
  };

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

  const std::vector<Forward>& forwards() const { return forwards_; }  ///< committed ones

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;
  void on_abandon() override;

 private:
  template <typename Work>
  auto measured(Work work);

  std::vector<Forward> forwards_;
  int64_t held_before_ = 0;
  double seconds_ = 0;
  std::optional<AllocationMeter> meter_;  // of the open forward
};

}  // namespace kvbook

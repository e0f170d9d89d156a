#include "common/measured_cache.h"

#include "common/allocation_meter.h"
#include "common/timings.h"

namespace kvbook {

template <typename Work>
auto MeasuredCache::measured(Work work) {
  int64_t peak_growth = growth_;
  const AllocationMeter meter(growth_, peak_growth);
  const double start = steady_seconds();  // the meter's own set-up is not the cache's time
  struct Stop {
    MeasuredCache& cache;
    const double& start;
    const int64_t& peak_growth;
    ~Stop() {
      cache.current_.seconds += steady_seconds() - start;
      cache.current_.peak_bytes = std::max(cache.current_.peak_bytes, cache.held_before_ + peak_growth);
    }
  } const stop{*this, start, peak_growth};
  return work();
}

void MeasuredCache::on_begin(const Step& step) {
  current_ = {};
  growth_ = 0;
  held_before_ = bytes();
  measured([&] { ForwardingCache::on_begin(step); });
}

KeyValues MeasuredCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  return measured([&] { return ForwardingCache::update(layer, key, value); });
}

void MeasuredCache::on_commit() {
  measured([&] { ForwardingCache::on_commit(); });
  forwards_.push_back(current_);
}

}  // namespace kvbook

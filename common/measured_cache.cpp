#include "common/measured_cache.h"

#include "common/timings.h"

namespace kvbook {

template <typename Work>
auto MeasuredCache::measured(Work work) {
  const AllocationMeter::Section section(*meter_);
  struct StopWatch {
    double& seconds;
    double start = steady_seconds();
    ~StopWatch() { seconds += steady_seconds() - start; }
  } const stop_watch{seconds_};
  return work();
}

void MeasuredCache::on_begin(const Step& step) {
  held_before_ = bytes();
  seconds_ = 0;
  meter_.emplace();
  try {
    measured([&] { ForwardingCache::on_begin(step); });
  } catch (...) {
    meter_.reset();  // a forward that was refused is not open: nothing else would end its meter
    throw;
  }
}

KeyValues MeasuredCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  if (!meter_) return ForwardingCache::update(layer, key, value);  // which refuses: no forward is open
  return measured([&] { return ForwardingCache::update(layer, key, value); });
}

void MeasuredCache::on_commit() {
  measured([&] { ForwardingCache::on_commit(); });
  forwards_.push_back({seconds_, held_before_ + meter_->peak()});
  meter_.reset();
}

void MeasuredCache::on_abandon() {
  meter_.reset();
  ForwardingCache::on_abandon();
}

}  // namespace kvbook

#include "common/measured_cache.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "common/timings.h"

namespace kvbook {
namespace {

/// LibTorch reports every allocation (positive) and release (negative) on this thread to one of these.
class AllocationMeter final : public c10::MemoryReportingInfoBase {
 public:
  AllocationMeter(int64_t& growth, int64_t& peak) : growth_(growth), peak_(peak) {}

  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    growth_ += bytes;
    peak_ = std::max(peak_, growth_);
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  int64_t& growth_;
  int64_t& peak_;
};

}  // namespace

template <typename Work>
auto MeasuredCache::measured(Work work) {
  int64_t peak_growth = growth_;
  const double start = steady_seconds();
  struct Stop {
    MeasuredCache& cache;
    const double& start;
    const int64_t& peak_growth;
    ~Stop() {
      cache.current_.seconds += steady_seconds() - start;
      cache.current_.peak_bytes = std::max(cache.current_.peak_bytes, cache.held_before_ + peak_growth);
    }
  } const stop{*this, start, peak_growth};
  const c10::DebugInfoGuard meter(c10::DebugInfoKind::PROFILER_STATE,
                                  std::make_shared<AllocationMeter>(growth_, peak_growth));
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

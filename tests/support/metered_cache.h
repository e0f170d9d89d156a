// A cache whose tensors are weighed, whatever it says of itself.
#pragma once

#include "common/allocation_meter.h"
#include "common/forwarding_cache.h"

namespace kvbook {

/// Same answers as `inner`; follows the memory of all tensors that are made inside it, until they are released. On one
/// thread, and the youngest of several counts.
class MeteredCache final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;

  int64_t held() const { return meter_.growth(); }  ///< bytes: keys and values, and also masks and scratch

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    const AllocationMeter::Section inside(meter_);
    return ForwardingCache::update(layer, key, value);
  }
  void reset() override {
    const AllocationMeter::Section inside(meter_);
    ForwardingCache::reset();
  }

 protected:
  void on_begin(const Step& step) override {
    const AllocationMeter::Section inside(meter_);
    ForwardingCache::on_begin(step);
  }
  void on_commit() override {
    const AllocationMeter::Section inside(meter_);
    ForwardingCache::on_commit();
  }

 private:
  AllocationMeter meter_;
};

}  // namespace kvbook

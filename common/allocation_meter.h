// Counts what LibTorch allocates and releases on this thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace kvbook {

/// While one lives, every allocation of tensor memory on this thread adds to `growth` and every release takes from it,
/// in bytes; `peak` follows the greatest growth. Both must outlive it. They may be shared by several in turn.
class AllocationMeter {
 public:
  AllocationMeter(int64_t& growth, int64_t& peak)
      : guard_(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Reporter>(growth, peak)) {}

 private:
  class Reporter final : public c10::MemoryReportingInfoBase {
   public:
    Reporter(int64_t& growth, int64_t& peak) : growth_(growth), peak_(peak) {}
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      growth_ += bytes;
      peak_ = std::max(peak_, growth_);
    }
    bool memoryProfilingEnabled() const override { return true; }

   private:
    int64_t& growth_;
    int64_t& peak_;
  };

  c10::DebugInfoGuard guard_;
};

}  // namespace kvbook

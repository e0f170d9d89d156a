// Counts what LibTorch allocates and releases on this thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

namespace kvbook {

/// Follows the tensor memory of one piece of code on this thread while other code allocates too. What is allocated
/// inside a Section counts until it is released, wherever that happens; what was there before counts when a Section
/// releases it. Of several meters that live at once the youngest counts; they must end in reverse order.
class AllocationMeter {
  struct Ledger;

 public:
  AllocationMeter() : guard_(c10::DebugInfoKind::PROFILER_STATE, ledger_) {}

  class Section {
   public:
    explicit Section(AllocationMeter& meter) : ledger_(*meter.ledger_) { ledger_.inside = true; }
    ~Section() { ledger_.inside = false; }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Ledger& ledger_;
  };

  int64_t growth() const { return ledger_->growth; }  ///< bytes allocated less bytes released
  int64_t peak() const { return ledger_->peak; }      ///< the greatest growth so far; 0 at the start

 private:
  struct Ledger final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* block, int64_t bytes, size_t, size_t, c10::Device) override {  // bytes < 0: released
      if (bytes > 0 && inside) counted.insert(block);
      if (inside || counted.count(block) > 0) growth += bytes;
      if (bytes < 0) counted.erase(block);
      peak = std::max(peak, growth);
    }
    bool memoryProfilingEnabled() const override { return true; }

    bool inside = false;
    std::unordered_set<void*> counted;  // allocated inside a Section and still alive
    int64_t growth = 0;
    int64_t peak = 0;
  };

  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  c10::DebugInfoGuard guard_;
};

}  // namespace kvbook

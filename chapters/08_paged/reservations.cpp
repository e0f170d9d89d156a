#include "chapters/08_paged/reservations.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace kvbook {
namespace {

/// Of a request without an entry: nothing.
template <typename Value>
Value entry_or_none(const std::map<int64_t, Value>& entries, int64_t request) {
  const auto found = entries.find(request);
  return found == entries.end() ? Value{} : found->second;
}

class TheMost final : public Reservation {
 public:
  TheMost(int64_t slots, int64_t most) : most_(most) {
    TORCH_CHECK_VALUE(slots > 0 && most > 0, "there is no room for anybody in ", slots, " slots, ", most, " each");
    blocks_ = slots / most;
  }

  bool grow(int64_t request, int64_t tokens) override {
    if (tokens > most_) return false;
    if (holders_.count(request) > 0) return true;
    if (static_cast<int64_t>(holders_.size()) == blocks_) return false;
    holders_.insert(request);
    return true;
  }
  void release(int64_t request) override { holders_.erase(request); }
  int64_t held(int64_t request) const override { return holders_.count(request) > 0 ? most_ : 0; }

 private:
  int64_t most_, blocks_ = 0;
  std::set<int64_t> holders_;
};

// ANCHOR: buddy
class PowersOfTwo final : public Reservation {
 public:
  explicit PowersOfTwo(int64_t slots) : slots_(slots) {
    TORCH_CHECK_VALUE(slots > 0 && (slots & (slots - 1)) == 0, slots, " slots are no power of two");
    free_[slots].insert(0);
  }

  bool grow(int64_t request, int64_t tokens) override {
    const Block old = entry_or_none(blocks_, request);
    if (tokens <= old.size) return true;
    int64_t size = 1;
    while (size < tokens) size *= 2;
    Block block{.size = size};
    if (!take(block)) return false;
    if (old.size > 0) give_back(old);
    blocks_[request] = block;
    return true;
  }
  void release(int64_t request) override {
    if (held(request) == 0) return;
    give_back(blocks_.at(request));
    blocks_.erase(request);
  }
  int64_t held(int64_t request) const override { return entry_or_none(blocks_, request).size; }

 private:
  struct Block {
    int64_t begin = 0, size = 0;
  };

  /// A free block of this size, or half of one twice as large.
  bool take(Block& block) {
    if (block.size > slots_) return false;
    std::set<int64_t>& here = free_[block.size];
    if (here.empty()) {
      Block twice{.size = 2 * block.size};
      if (!take(twice)) return false;
      here.insert({twice.begin, twice.begin + block.size});
    }
    block.begin = *here.begin();
    here.erase(here.begin());
    return true;
  }

  void give_back(Block block) {
    const int64_t buddy = block.begin ^ block.size;
    if (block.size < slots_ && free_[block.size].erase(buddy) > 0) {
      return give_back({.begin = std::min(block.begin, buddy), .size = 2 * block.size});
    }
    free_[block.size].insert(block.begin);
  }

  int64_t slots_;
  std::map<int64_t, std::set<int64_t>> free_;  // size -> where
  std::map<int64_t, Block> blocks_;            // by request
};
// ANCHOR_END: buddy

// ANCHOR: pages
class Pages final : public Reservation {
 public:
  Pages(int64_t slots, int64_t page) : page_(page), pool_(page > 0 ? slots / page : 0) {}

  bool grow(int64_t request, int64_t tokens) override {
    const int64_t more = (tokens + page_ - 1) / page_ - held(request) / page_;
    if (more > pool_.available()) return false;
    for (int64_t i = 0; i < more; ++i) tables_[request].push_back(pool_.take());
    return true;
  }
  void release(int64_t request) override {
    for (const int64_t page : entry_or_none(tables_, request)) pool_.give_back(page);
    tables_.erase(request);
  }
  int64_t held(int64_t request) const override {
    return page_ * static_cast<int64_t>(entry_or_none(tables_, request).size());
  }

 private:
  int64_t page_;
  PagePool pool_;
  std::map<int64_t, std::vector<int64_t>> tables_;
};
// ANCHOR_END: pages

}  // namespace

std::unique_ptr<Reservation> reserve_the_most(int64_t slots, int64_t most) {
  return std::make_unique<TheMost>(slots, most);
}

std::unique_ptr<Reservation> reserve_powers_of_two(int64_t slots) { return std::make_unique<PowersOfTwo>(slots); }

std::unique_ptr<Reservation> reserve_pages(int64_t slots, int64_t page) { return std::make_unique<Pages>(slots, page); }

}  // namespace kvbook

// Every chapter's cache under the conformance suite, and those of the exercises' answers.
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "chapters/answers.h"
#include "tests/conformance/conformance_suite.h"

namespace kvbook {
namespace {

int64_t doubled(int64_t length) {
  int64_t slots = kFirstSlots;
  while (slots < length) slots += slots;
  return slots;
}

constexpr int64_t kContext = 8;  // of the model that slots and copies are counted on: a layer with this window is full

int64_t spare_slots(int64_t, int64_t window) { return window < kContext ? window + kSpareSlots : kContext; }

int64_t growing_slots(int64_t length, int64_t window) {
  return window < kContext ? window : std::min(doubled(length), kContext);
}

/// Slots of an answer that keeps another number than a chapter's cache with the same flags; empty where it does not.
std::function<int64_t(int64_t length, int64_t window)> own_slots(const std::string& name) {
  if (name == "04_doubling") return [](int64_t length, int64_t) { return doubled(length); };
  if (name == "05_no_sinks") return [](int64_t length, int64_t window) { return std::min(length, window - 1); };
  if (name == "05_late_shift") return [](int64_t, int64_t window) { return window + kSpareSlots; };
  if (name == "06_direct_chunk") return [](int64_t, int64_t window) { return window + kSpareSlots; };
  if (name == "06_ordered") return [](int64_t, int64_t window) { return 2 * window; };
  if (name == "10_spare") return spare_slots;
  if (name == "10_growing") return growing_slots;
  return {};
}

int64_t direct_chunk_copies(int64_t length, int64_t T, int64_t window) {
  return T <= kSpareSlots + 1 ? T : ring_copies(length, T, window + kSpareSlots);
}

int64_t ordered_copies(int64_t length, int64_t T, int64_t window) {
  if (T == 1 || length + T <= window) return 2 * T;
  return std::min(length, window - 1) + T + 2 * std::min(T, window);  // staged, then its end is stored twice
}

int64_t spare_copies(int64_t length, int64_t T, int64_t window) {
  return ring_copies(length, T, spare_slots(length, window));
}

int64_t growing_copies(int64_t length, int64_t T, int64_t window) {
  if (window < kContext) return ring_copies(length, T, window);
  return growing_slots(length + T, window) > growing_slots(length, window) ? length + T : T;
}

/// Tokens that an answer of chapters 6, 10 and 11 copies; empty for the others, which answers_test counts.
std::function<int64_t(int64_t length, int64_t T, int64_t window)> own_copies(const std::string& name) {
  if (name == "06_direct_chunk") return direct_chunk_copies;
  if (name == "06_no_sinks") return ring_copies;
  if (name == "06_ordered") return ordered_copies;
  if (name == "10_spare") return spare_copies;
  if (name == "10_growing") return growing_copies;
  if (name == "11_spread") return [](int64_t, int64_t T, int64_t) { return T; };
  return {};
}

constexpr int64_t kSpareOfTheRing = 2;

/// Chapter 6's cache with slots to spare, which its program does not offer.
Chapter roomy_ring() {
  Chapter chapter = find_chapter("06_ring_buffer");
  chapter.name = "06_ring_with_spare";
  chapter.make_cache = [](const ModelShape& shape, const CacheOptions& o) {
    return std::make_unique<RingBufferCache>(shape, o.window, kSpareOfTheRing);
  };
  return chapter;
}

}  // namespace

std::vector<CacheCase> conformance_cases() {
  std::vector<CacheCase> cases = cache_cases(chapters());
  for (CacheCase ring : cache_cases({roomy_ring()})) {
    ring.own_slots = [](int64_t, int64_t window) { return window + kSpareOfTheRing; };
    ring.own_copies = [](int64_t length, int64_t T, int64_t window) {
      return ring_copies(length, T, window + kSpareOfTheRing);
    };
    cases.push_back(std::move(ring));
  }
  for (CacheCase answer : cache_cases(answer_caches())) {
    answer.own_slots = own_slots(answer.chapter.name);
    answer.own_copies = own_copies(answer.chapter.name);
    answer.copies_by_its_own_rule = !answer.own_copies && answer.chapter.name != "04_token_major";
    cases.push_back(std::move(answer));
  }
  return cases;
}

}  // namespace kvbook

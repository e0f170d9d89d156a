// Every chapter's cache under the conformance suite, and those of the exercises' answers.
#include "chapters/answers.h"
#include "tests/conformance/conformance_suite.h"

namespace kvbook {
namespace {

int64_t doubled(int64_t length) {
  int64_t slots = kFirstSlots;
  while (slots < length) slots += slots;
  return slots;
}

/// Slots of an answer that keeps another number than a chapter's cache with the same flags; empty where it does not.
std::function<int64_t(int64_t length, int64_t window)> own_slots(const std::string& name) {
  if (name == "04_doubling") return [](int64_t length, int64_t) { return doubled(length); };
  if (name == "05_no_sinks") return [](int64_t length, int64_t window) { return std::min(length, window - 1); };
  if (name == "05_late_shift") return [](int64_t, int64_t window) { return window + kSpareSlots; };
  return {};
}

}  // namespace

std::vector<CacheCase> conformance_cases() {
  std::vector<CacheCase> cases = cache_cases(chapters());
  for (CacheCase answer : cache_cases(answer_caches())) {
    answer.own_slots = own_slots(answer.chapter.name);
    answer.copies_by_its_own_rule = answer.chapter.name != "04_token_major";  // answers_test counts
    cases.push_back(std::move(answer));
  }
  return cases;
}

}  // namespace kvbook

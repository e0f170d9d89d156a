#include "common/utf8.h"

#include <algorithm>

namespace kvbook {
namespace {

/// Which bytes may follow a lead byte: `more` of them; the second one lies in [low, high], the others in [80, BF].
struct LeadRule {
  int first, last;
  size_t more;
  int low, high;
};

constexpr LeadRule kLeadRules[] = {
    {0x00, 0x7F, 0, 0x00, 0x00},  // ASCII
    {0xC2, 0xDF, 1, 0x80, 0xBF},  // C0 and C1 could only begin overlong forms
    {0xE0, 0xE0, 2, 0xA0, 0xBF},  // 80-9F: overlong
    {0xE1, 0xEC, 2, 0x80, 0xBF},  //
    {0xED, 0xED, 2, 0x80, 0x9F},  // A0-BF: surrogates
    {0xEE, 0xEF, 2, 0x80, 0xBF},  //
    {0xF0, 0xF0, 3, 0x90, 0xBF},  // 80-8F: overlong
    {0xF1, 0xF3, 3, 0x80, 0xBF},  //
    {0xF4, 0xF4, 3, 0x80, 0x8F},  // 90-BF: above U+10FFFF
};

int byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

}  // namespace

Utf8Unit first_utf8_unit(std::string_view text) {
  const int lead = byte_at(text, 0);
  for (const LeadRule& rule : kLeadRules) {
    if (lead < rule.first || lead > rule.last) continue;
    for (size_t i = 1; i <= rule.more; ++i) {
      if (i == text.size()) return {Utf8Kind::kIncomplete, i};
      const int low = i == 1 ? rule.low : 0x80;
      const int high = i == 1 ? rule.high : 0xBF;
      if (byte_at(text, i) < low || byte_at(text, i) > high) return {Utf8Kind::kInvalid, i};
    }
    return {Utf8Kind::kCharacter, 1 + rule.more};
  }
  return {Utf8Kind::kInvalid, 1};
}

size_t incomplete_utf8_tail(std::string_view text) {
  constexpr size_t kLongestTail = 3;
  for (size_t bytes = 1; bytes <= std::min(text.size(), kLongestTail); ++bytes) {
    const Utf8Unit unit = first_utf8_unit(text.substr(text.size() - bytes));
    if (unit.kind == Utf8Kind::kIncomplete) return bytes;
  }
  return 0;
}

}  // namespace kvbook

#include "common/split_pattern.h"

#include <c10/util/Exception.h>

#include <string>

#include "common/unicode_additions.h"
#include "common/utf8.h"

namespace kvbook {
namespace {

/// GPT-2's pattern:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// The last two keep one space for the word that follows: "a  b" is "a", " ", " b".
std::string pattern_text() {
  // The White_Space property, written out: PCRE2's \s with Unicode properties has U+180E too, the reference's has not.
  const std::string space =
      R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  const std::string letter = std::string(R"(\p{L})") + kAddedLetters;
  const std::string number = std::string(R"(\p{N})") + kAddedNumbers;
  return "'s|'t|'re|'ve|'m|'ll|'d"
         "| ?[" +
         letter +
         "]+"
         "| ?[" +
         number +
         "]+"
         "| ?[^" +
         space + letter + number +
         "]+"
         "|[" +
         space + "]+(?![^" + space +
         "])"
         "|[" +
         space + "]+";
}

std::string pcre2_message(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

/// Bytes at the start of the text, which is not empty, that are all UTF-8 or all not.
size_t run_length(std::string_view text, bool& valid) {
  const auto is_character = [](std::string_view rest) {
    const Utf8Unit unit = first_utf8_unit(rest);
    return std::pair(unit.kind == Utf8Kind::kCharacter, unit.bytes);
  };
  valid = is_character(text).first;
  size_t length = 0;
  while (length < text.size()) {
    const auto [character, bytes] = is_character(text.substr(length));
    if (character != valid) break;
    length += bytes;
  }
  return length;
}

/// Appends the pieces of a text that is valid UTF-8.
void split_characters(const pcre2_code* code, pcre2_match_data* match, std::string_view text,
                      std::vector<std::string_view>& pieces) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t start = 0;
  while (start < text.size()) {
    // Checking the UTF-8 again at every piece, from there to the end, would take quadratic time.
    const int found = pcre2_match(code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, match, nullptr);
    TORCH_CHECK(found > 0, "PCRE2 cannot split the text at byte ", start, ": ", pcre2_message(found));
    const size_t* bounds = pcre2_get_ovector_pointer(match);
    TORCH_INTERNAL_ASSERT(bounds[0] == start && bounds[1] > start, "the split pattern left a gap at byte ", start);
    pieces.push_back(text.substr(start, bounds[1] - start));
    start = bounds[1];
  }
}

}  // namespace

SplitPattern::SplitPattern() {
  const std::string pattern = pattern_text();
  int error = 0;
  size_t place = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &place,
                            /*ccontext=*/nullptr));
  TORCH_CHECK(code_, "PCRE2 refuses the split pattern at byte ", place, ": ", pcre2_message(error),
              "; install a PCRE2 of 10.39 or later with Unicode support");
}

std::vector<std::string_view> SplitPattern::split(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
  TORCH_CHECK(match, "no memory to split the text");
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    bool valid = false;
    const std::string_view run = text.substr(0, run_length(text, valid));
    if (valid) {
      split_characters(code_.get(), match.get(), run, pieces);
    } else {
      pieces.push_back(run);
    }
    text.remove_prefix(run.size());
  }
  return pieces;
}

}  // namespace kvbook

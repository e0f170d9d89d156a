// Cuts text into the pieces that byte-pair merging never crosses: words, numbers, signs, white space.
#pragma once

#include <pcre2.h>

#include <memory>
#include <string_view>
#include <vector>

namespace kvbook {

/// GPT-2's split pattern, compiled once. Immutable; safe to use from several threads.
class SplitPattern {
 public:
  /// @throws c10::Error if the installed PCRE2 has no Unicode support.
  SplitPattern();

  /// The pieces in order, views into `text`; together they are the text. Any bytes may come: a run of bytes that are
  /// not UTF-8 is a piece of its own, and the text on either side of it is split as if it stood alone.
  /// Time: linear in the text.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

}  // namespace kvbook

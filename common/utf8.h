// Strict UTF-8: where a character ends, and which bytes are none.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvbook {

enum class Utf8Kind {
  kCharacter,   // a whole character
  kIncomplete,  // the text ends inside a character that more bytes could complete
  kInvalid,     // no byte that follows could make this a character
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t bytes;  // at least 1
};

/// The first unit of a text that is not empty. Well-formed is what table 3-7 of the Unicode standard lists: overlong
/// forms, surrogates and everything above U+10FFFF are invalid.
Utf8Unit first_utf8_unit(std::string_view text);

/// Bytes at the end of the text that begin a character and do not finish it: 0 to 3.
size_t incomplete_utf8_tail(std::string_view text);

}  // namespace kvbook

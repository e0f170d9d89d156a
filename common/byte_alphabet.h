// GPT-2's byte alphabet: one printable character for each of the 256 bytes, so that a vocabulary can be a text file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvbook {

/// The character for one byte, in UTF-8. Printable Latin-1 bytes stand for themselves; the others, in order, are the
/// characters from U+0100 on: a space is "Ġ" (U+0120), a line feed "Ċ" (U+010A).
std::string byte_to_character(uint8_t byte);

/// The bytes that a vocabulary entry stands for; nothing if it has a character outside the alphabet.
std::optional<std::string> characters_to_bytes(std::string_view entry);

}  // namespace kvbook

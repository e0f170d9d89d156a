#include "common/byte_alphabet.h"

#include <array>
#include <unordered_map>

#include "common/utf8.h"

namespace kvbook {
namespace {

bool stands_for_itself(int byte) {
  constexpr int kSoftHyphen = 0xAD;  // Latin-1, but not printable
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != kSoftHyphen);
}

/// UTF-8 of a character below U+0800.
std::string to_utf8(int code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::array<std::string, 256> make_alphabet() {
  std::array<std::string, 256> alphabet;
  int next_substitute = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[byte] = to_utf8(stands_for_itself(byte) ? byte : next_substitute++);
  }
  return alphabet;
}

const std::array<std::string, 256>& alphabet() {
  static const std::array<std::string, 256> characters = make_alphabet();
  return characters;
}

std::unordered_map<std::string_view, char> make_inverse() {
  std::unordered_map<std::string_view, char> inverse;
  for (int byte = 0; byte < 256; ++byte) inverse.emplace(alphabet()[byte], static_cast<char>(byte));
  return inverse;
}

}  // namespace

std::string byte_to_character(uint8_t byte) { return alphabet()[byte]; }

std::optional<std::string> characters_to_bytes(std::string_view entry) {
  static const std::unordered_map<std::string_view, char> inverse = make_inverse();
  std::string bytes;
  while (!entry.empty()) {
    const size_t length = first_utf8_unit(entry).bytes;
    const auto found = inverse.find(entry.substr(0, length));
    if (found == inverse.end()) return std::nullopt;
    bytes += found->second;
    entry.remove_prefix(length);
  }
  return bytes;
}

}  // namespace kvbook

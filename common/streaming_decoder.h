// Prints a stream of ids as text without ever printing half a character.
#pragma once

#include <cstdint>
#include <string>

#include "common/tokenizer.h"

namespace kvbook {

/// One UTF-8 character may be spread over several tokens. Bytes of a character that is not yet complete are held back
/// (three at most); bytes that cannot begin or continue a character are passed on at once. The concatenation of
/// everything returned equals decode() of all ids. Not thread-safe.
class StreamingDecoder {
 public:
  /// The tokenizer must outlive this object.
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that this id completes; empty while a character is incomplete.
  /// @throws c10::IndexError for an id that is not in the vocabulary; what is held back stays.
  std::string add(int64_t id);

  /// What is still held back when the generation ends inside a character; empty otherwise. The next add starts anew.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;
};

}  // namespace kvbook

// Tokens on a terminal as they come: text where there is a tokenizer, ids where there is none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/streaming_decoder.h"
#include "common/tokenizer.h"

namespace kvbook {

/// What ids read as: text, or ids separated by commas without a tokenizer. End-of-text is a line end.
std::string readable(const Tokenizer* tokenizer, const std::vector<int64_t>& ids);

/// Text broken into lines of at most `width` bytes at spaces; a longer word has a line of its own.
std::vector<std::string> wrapped(const std::string& text, size_t width);

/// Prints to standard output, token by token, at once; a token that begins with a space and would pass column 100
/// begins a line instead. The tokenizer may be null and must outlive this object.
class ConsoleText {
 public:
  explicit ConsoleText(const Tokenizer* tokenizer);
  void add(int64_t id);
  void finish();  ///< prints what is held back of an incomplete character, and a line end

 private:
  void print(const std::string& text);

  const Tokenizer* tokenizer_;
  std::unique_ptr<StreamingDecoder> decoder_;
  bool first_ = true;
  size_t column_ = 0;
};

}  // namespace kvbook

#include "common/console_text.h"

#include <fmt/format.h>

#include <sstream>

#include "common/ids.h"

namespace kvbook {
namespace {

constexpr size_t kLineWidth = 100;

bool ends_text(const Tokenizer& tokenizer, int64_t id) { return tokenizer.end_of_text() == id; }

}  // namespace

std::string readable(const Tokenizer* tokenizer, const std::vector<int64_t>& ids) {
  if (tokenizer == nullptr) return joined(ids);
  std::string text;
  for (const int64_t id : ids) {
    if (ends_text(*tokenizer, id)) {
      text += "\n";
    } else {
      text += tokenizer->knows(id) ? tokenizer->decode({id}) : fmt::format("[{}]", id);
    }
  }
  return text;
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

ConsoleText::ConsoleText(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer_ != nullptr) decoder_ = std::make_unique<StreamingDecoder>(*tokenizer_);
}

void ConsoleText::print(const std::string& text) {
  if (text.empty()) return;
  const bool wraps = text.front() == ' ' && column_ + text.size() > kLineWidth;
  const std::string shown = wraps ? "\n" + text.substr(1) : text;
  fmt::print("{}", shown);
  const size_t line_end = shown.rfind('\n');
  column_ = line_end == std::string::npos ? column_ + shown.size() : shown.size() - line_end - 1;
}

void ConsoleText::add(int64_t id) {
  if (tokenizer_ == nullptr) {
    if (!first_) print(",");
    print(fmt::format("{}{}", first_ ? "" : " ", id));
  } else if (ends_text(*tokenizer_, id) || !tokenizer_->knows(id)) {
    print(decoder_->finish());
    print(readable(tokenizer_, {id}));
  } else {
    print(decoder_->add(id));
  }
  first_ = false;
  std::fflush(stdout);
}

void ConsoleText::finish() {
  if (decoder_) print(decoder_->finish());
  print("\n");
}

}  // namespace kvbook

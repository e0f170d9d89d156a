#include "common/console_text.h"

#include <fmt/format.h>

#include "common/ids.h"

namespace kvbook {
namespace {

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

ConsoleText::ConsoleText(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer_ != nullptr) decoder_ = std::make_unique<StreamingDecoder>(*tokenizer_);
}

void ConsoleText::add(int64_t id) {
  if (tokenizer_ == nullptr) {
    fmt::print("{}{}", first_ ? "" : ", ", id);
  } else if (ends_text(*tokenizer_, id) || !tokenizer_->knows(id)) {
    fmt::print("{}{}", decoder_->finish(), readable(tokenizer_, {id}));
  } else {
    fmt::print("{}", decoder_->add(id));
  }
  first_ = false;
  std::fflush(stdout);
}

void ConsoleText::finish() {
  if (decoder_) fmt::print("{}", decoder_->finish());
  fmt::print("\n");
}

}  // namespace kvbook

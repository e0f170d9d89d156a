#include "common/streaming_decoder.h"

#include <utility>

#include "common/utf8.h"

namespace kvbook {

std::string StreamingDecoder::add(int64_t id) {
  std::string text = held_ + tokenizer_->decode({id});
  const size_t ready = text.size() - incomplete_utf8_tail(text);
  held_ = text.substr(ready);
  text.resize(ready);
  return text;
}

std::string StreamingDecoder::finish() { return std::exchange(held_, ""); }

}  // namespace kvbook

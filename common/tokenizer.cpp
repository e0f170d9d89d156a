#include "common/tokenizer.h"

#include <c10/util/Exception.h>

#include <utility>

#include "common/byte_pair_merge.h"
#include "common/split_pattern.h"
#include "common/vocabulary.h"

namespace kvbook {

struct Tokenizer::Tables {
  Vocabulary vocabulary;
  SplitPattern pattern;

  /// Appends the ids of a text in which nothing is special.
  void encode_plain(std::string_view text, std::vector<int64_t>& ids) const {
    for (const std::string_view piece : pattern.split(text)) {
      std::vector<int64_t> bytes;
      for (const char byte : piece) bytes.push_back(vocabulary.byte_ids[static_cast<unsigned char>(byte)]);
      const std::vector<int64_t> merged = merge_byte_pairs(std::move(bytes), vocabulary.merges);
      ids.insert(ids.end(), merged.begin(), merged.end());
    }
  }

  /// The longest special token that the text begins with; null if there is none.
  const std::pair<std::string, int64_t>* special_at_start(std::string_view text) const {
    for (const auto& special : vocabulary.special_ids) {
      if (text.starts_with(special.first)) return &special;
    }
    return nullptr;
  }
};

Tokenizer::Tokenizer(const std::filesystem::path& folder)
    : tables_(new Tables{.vocabulary = read_vocabulary(folder), .pattern = {}}) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<int64_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int64_t> ids;
  if (special == SpecialTokens::kAsIds) {
    size_t place = text.find("<|");
    while (place != std::string_view::npos) {
      if (const auto* token = tables_->special_at_start(text.substr(place))) {
        tables_->encode_plain(text.substr(0, place), ids);
        ids.push_back(token->second);
        text.remove_prefix(place + token->first.size());
        place = text.find("<|");
      } else {
        place = text.find("<|", place + 1);
      }
    }
  }
  tables_->encode_plain(text, ids);
  return ids;
}

std::vector<std::string> Tokenizer::split(std::string_view text) const {
  const std::vector<std::string_view> pieces = tables_->pattern.split(text);
  return {pieces.begin(), pieces.end()};
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const int64_t id : ids) {
    const auto found = tables_->vocabulary.bytes.find(id);
    TORCH_CHECK_INDEX(found != tables_->vocabulary.bytes.end(), "id ", id, " is not in the vocabulary of ", size(),
                      " entries; give ids of this tokenizer's model");
    text += found->second;
  }
  return text;
}

bool Tokenizer::knows(int64_t id) const { return tables_->vocabulary.bytes.contains(id); }

int64_t Tokenizer::size() const { return static_cast<int64_t>(tables_->vocabulary.bytes.size()); }

std::optional<int64_t> Tokenizer::end_of_text() const {
  for (const auto& [text, id] : tables_->vocabulary.special_ids) {
    if (text == "<|endoftext|>") return id;
  }
  return std::nullopt;
}

}  // namespace kvbook

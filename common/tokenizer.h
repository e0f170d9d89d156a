// GPT-2's byte-level byte-pair encoding: text to ids and back, exactly, for any bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvbook {

/// Three steps: a pattern splits the text into pieces (split_pattern.h), each byte of a piece becomes an id
/// (byte_alphabet.h), and neighbours in a piece are merged (byte_pair_merge.h).
/// Immutable after construction; safe to use from several threads. A moved-from one may only be assigned or destroyed.
class Tokenizer {
 public:
  /// Reads FOLDER/vocab.json and FOLDER/merges.txt. @throws c10::ValueError naming the file, the fault and the remedy
  /// (vocabulary.h lists what is refused).
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  enum class SpecialTokens { kAsText, kAsIds };

  /// Text (any bytes, UTF-8 or not) to ids. "<|endoftext|>" and the like are plain text unless asked for as ids.
  /// Time: linear in the text, n log n in its longest piece.
  std::vector<int64_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::kAsText) const;

  /// The pieces that the split pattern cuts text into; together they are the text.
  std::vector<std::string> split(std::string_view text) const;

  /// Ids to bytes: the exact inverse of encode. @throws c10::IndexError for an id that is not in the vocabulary.
  std::string decode(const std::vector<int64_t>& ids) const;

  /// True for an id that decode accepts (a model's vocabulary may be padded to more).
  bool knows(int64_t id) const;

  int64_t size() const;                        ///< entries of the vocabulary
  std::optional<int64_t> end_of_text() const;  ///< the id of "<|endoftext|>", if the vocabulary has it

 private:
  struct Tables;
  std::unique_ptr<const Tables> tables_;
};

}  // namespace kvbook

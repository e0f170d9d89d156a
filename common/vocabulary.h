// A GPT-2 vocabulary as read from vocab.json and merges.txt. Neither file is trusted.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/byte_pair_merge.h"

namespace kvbook {

/// vocab.json maps entries to ids, merges.txt lists the merges by rank. Three kinds of entry are told apart:
/// - an ordinary one is written in the byte alphabet and stands for those bytes;
/// - a special one looks like <|...|> and comes from no merge: it stands for its own UTF-8, whatever its characters;
/// - one that no merge makes and that does not look so (padding) is an ordinary one that encode never yields.
/// Ids may leave gaps: a model's vocabulary may be larger than its tokenizer's.
struct Vocabulary {
  std::unordered_map<int64_t, std::string> bytes;            // id to what it stands for
  std::array<int64_t, 256> byte_ids;                         // the id of each single byte
  MergeTable merges;                                         //
  std::vector<std::pair<std::string, int64_t>> special_ids;  // the longest text first
};

/// Reads FOLDER/vocab.json and FOLDER/merges.txt.
/// @throws c10::ValueError naming the file, the fault and the remedy: a file that is missing, too large or cut short;
/// JSON that is not one flat object; an entry twice or two entries with one id; an id that is no integer or out of
/// range; a character outside the byte alphabet; one of the 256 bytes without an entry; a line of merges.txt that is
/// not two entries, that repeats an earlier one or whose result is no entry.
Vocabulary read_vocabulary(const std::filesystem::path& folder);

}  // namespace kvbook

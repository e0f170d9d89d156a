#include "common/vocabulary.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_set>

#include "common/byte_alphabet.h"
#include "common/input_file.h"
#include "common/strict_json.h"

namespace kvbook {
namespace {

using Json = nlohmann::json;

constexpr char kRemedy[] = "; take vocab.json and merges.txt from the same model, unaltered";

/// A tokenizer's file as text. @throws c10::ValueError with the remedy.
std::string read_file(const std::filesystem::path& path) {
  constexpr int64_t kLargestFile = 64 << 20;  // GPT-2's are 1 MB
  try {
    return read_text(path, kLargestFile);
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, error.what_without_backtrace(), kRemedy);
  }
}

/// The top level of vocab.json.
Json parse_entries(const std::string& text, const std::string& where) {
  try {
    Json entries = parse_strict_json(text, where);
    TORCH_CHECK_VALUE(entries.is_object(), where, " is not a JSON object of entries and ids");
    return entries;
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, error.what_without_backtrace(), kRemedy);
  }
}

int64_t checked_id(const std::string& entry, const Json& value, const std::string& where) {
  TORCH_CHECK_VALUE(value.is_number_integer(), where, ": the id of ", quoted_name(entry), " is not an integer",
                    kRemedy);
  const bool in_range = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{MergeTable::kLargestId}
                                                   : value.get<int64_t>() >= 0;
  TORCH_CHECK_VALUE(in_range, where, ": the id of ", quoted_name(entry), " is ", value.dump(),
                    ", but ids lie between 0 and ", MergeTable::kLargestId, kRemedy);
  return value.get<int64_t>();
}

using Ids = std::unordered_map<std::string, int64_t>;

Ids read_ids(const std::filesystem::path& path) {
  const std::string where = path.string();
  const Json entries = parse_entries(read_file(path), where);
  Ids ids;
  std::unordered_map<int64_t, std::string> entry_of;
  for (const auto& [entry, value] : entries.items()) {
    TORCH_CHECK_VALUE(!entry.empty(), where, " has an empty entry", kRemedy);
    const int64_t id = checked_id(entry, value, where);
    const auto [other, is_new] = entry_of.emplace(id, entry);
    TORCH_CHECK_VALUE(is_new, where, ": ", quoted_name(other->second), " and ", quoted_name(entry),
                      " have the same id ", id, kRemedy);
    ids.emplace(entry, id);
  }
  return ids;
}

struct MergeFile {
  MergeTable table;
  std::set<int64_t> results;
};

class MergeReader {
 public:
  MergeReader(const Ids& ids, std::string where) : ids_(ids), where_(std::move(where)) {}

  MergeFile read(std::string_view text) {
    text = text.substr(0, text.find_last_not_of("\r\n") + 1);  // empty lines at the end are no fault
    for (line_ = 1; !text.empty(); ++line_) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line_ == 1 && line.starts_with("#version")) continue;
      add(line);
    }
    return std::move(merges_);
  }

 private:
  void add(std::string_view line) {
    const size_t space = line.find(' ');
    const bool two_words = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                           line.find(' ', space + 1) == std::string_view::npos;
    TORCH_CHECK_VALUE(two_words, where_, ", line ", line_, ": ", quoted_name(line),
                      " is not two entries with one space between", kRemedy);
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    const int64_t left_id = id_of(left);
    const int64_t right_id = id_of(right);
    const int64_t result_id = id_of(left + right);
    TORCH_CHECK_VALUE(merges_.table.add(left_id, right_id, result_id), where_, ", line ", line_, ": ",
                      quoted_name(line), " repeats an earlier line", kRemedy);
    merges_.results.insert(result_id);
  }

  int64_t id_of(const std::string& entry) const {
    const auto found = ids_.find(entry);
    TORCH_CHECK_VALUE(found != ids_.end(), where_, ", line ", line_, ": ", quoted_name(entry), " is not in vocab.json",
                      kRemedy);
    return found->second;
  }

  const Ids& ids_;
  std::string where_;
  int64_t line_ = 0;
  MergeFile merges_;
};

bool looks_special(std::string_view entry) {
  return entry.size() > 4 && entry.starts_with("<|") && entry.ends_with("|>");
}

}  // namespace

Vocabulary read_vocabulary(const std::filesystem::path& folder) {
  const std::filesystem::path vocab_path = folder / "vocab.json";
  const std::filesystem::path merges_path = folder / "merges.txt";
  const Ids ids = read_ids(vocab_path);
  MergeFile merges = MergeReader(ids, merges_path.string()).read(read_file(merges_path));

  Vocabulary vocabulary;
  for (const auto& [entry, id] : ids) {
    if (looks_special(entry) && !merges.results.contains(id)) {
      vocabulary.bytes.emplace(id, entry);
      vocabulary.special_ids.emplace_back(entry, id);
      continue;
    }
    std::optional<std::string> bytes = characters_to_bytes(entry);
    TORCH_CHECK_VALUE(bytes, vocab_path.string(), ": the entry ", quoted_name(entry),
                      " has a character outside GPT-2's byte alphabet, which only <|special|> entries may have",
                      kRemedy);
    vocabulary.bytes.emplace(id, std::move(*bytes));
  }
  std::sort(vocabulary.special_ids.begin(), vocabulary.special_ids.end(),
            [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (int byte = 0; byte < 256; ++byte) {
    const std::string entry = byte_to_character(static_cast<uint8_t>(byte));
    const auto found = ids.find(entry);
    TORCH_CHECK_VALUE(found != ids.end(), vocab_path.string(), ": the entry ", quoted_name(entry), " for byte ", byte,
                      " is missing", kRemedy);
    vocabulary.byte_ids[byte] = found->second;
  }
  vocabulary.merges = std::move(merges.table);
  return vocabulary;
}

}  // namespace kvbook

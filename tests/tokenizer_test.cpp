// Cases 19 to 21, 23 and 24, the reference's ids for the tales' vocabulary, and vocabulary files that are broken.
#include "common/tokenizer.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/byte_alphabet.h"
#include "common/byte_pair_merge.h"
#include "common/split_pattern.h"
#include "tests/support/tokenizer_golden.h"

namespace kvbook {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;
using Pieces = std::vector<std::string>;

const Tokenizer& tales() {
  static const Tokenizer tokenizer(KVBOOK_DATA_FOLDER "/tales");
  return tokenizer;
}

std::string repeat(const std::string& text, int64_t times) {
  std::string repeated;
  for (int64_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

TEST(Tokenizer, Case19PiecesOfWhiteSpaceAndContractions) {
  EXPECT_EQ(tales().split("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(tales().split("\n ="), (Pieces{"\n", " ="}));
  EXPECT_EQ(tales().split("x   "), (Pieces{"x", "   "}));
  EXPECT_EQ(tales().split("a\n\n b"), (Pieces{"a", "\n\n", " b"}));
  EXPECT_EQ(tales().split("\t\tx"), (Pieces{"\t", "\t", "x"}));
  EXPECT_EQ(tales().split("I'LL don't it's"), (Pieces{"I", "'", "LL", " don", "'t", " it", "'s"}));
  EXPECT_EQ(tales().split("you're I've I'm we'll he'd"),
            (Pieces{"you", "'re", " I", "'ve", " I", "'m", " we", "'ll", " he", "'d"}));
}

TEST(Tokenizer, Case19WhiteSpaceIsTheUnicodePropertyOfThatName) {
  const std::string vowel_separator = "\u180E";  // not white space, though PCRE2's \s says so
  EXPECT_EQ(tales().split("x" + vowel_separator + "!"), (Pieces{"x", vowel_separator + "!"}));
  const std::string next_line = "\u0085", ideographic_space = "\u3000";
  EXPECT_EQ(tales().split("x" + next_line + ideographic_space + "!"), (Pieces{"x", next_line, ideographic_space, "!"}));
}

TEST(Tokenizer, Case19LettersAndNumbersDoNotDependOnTheAgeOfPcre2) {
  // New in Unicode 14, 15, 15.1 and 16.
  const std::string letters = "\u0870\U0001E4D0\U00031350\U0002EBF0\U000105C0";
  const std::string numbers = "\U00016AC0\U0001E4F0\U0001E5F1";
  EXPECT_EQ(tales().split("x" + letters + "!" + letters), (Pieces{"x" + letters, "!", letters}));
  EXPECT_EQ(tales().split("1" + numbers + "!" + numbers), (Pieces{"1" + numbers, "!", numbers}));
}

TEST(Tokenizer, IdsAndPiecesAreTheReferences) {
  expect_matches_golden(tales(), read_tokenizer_golden(KVBOOK_DATA_FOLDER "/golden/tokenizer_tales.json"));
}

TEST(Tokenizer, Case20EndOfTextIsPlainTextUnlessAskedFor) {
  const std::string text = "<|endoftext|>";
  const int64_t special = tales().end_of_text().value();
  const Ids plain = tales().encode(text);
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), special), 0);
  EXPECT_EQ(tales().encode(text, Tokenizer::SpecialTokens::kAsIds), Ids{special});
  EXPECT_EQ(tales().decode({special}), text);

  Ids around = tales().encode("a <|");
  around.push_back(special);
  for (const int64_t id : tales().encode(" b")) around.push_back(id);
  EXPECT_EQ(tales().encode("a <|<|endoftext|> b", Tokenizer::SpecialTokens::kAsIds), around);
}

TEST(Tokenizer, Case21EverySingleByteSurvives) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const Ids ids = tales().encode(text);
    EXPECT_EQ(ids.size(), 1u) << "byte " << byte;
    EXPECT_EQ(tales().decode(ids), text) << "byte " << byte;
  }
}

TEST(Tokenizer, Case21BytesThatAreNotUtf8AreAPieceOfTheirOwn) {
  for (const std::string bad : {"\xE6\xAD", "\xFF", "\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    SCOPED_TRACE(testing::PrintToString(bad));
    for (const std::string& text : {bad, "a" + bad, bad + "b", "a " + bad + bad + " b", bad + "\n\n" + bad}) {
      EXPECT_EQ(tales().decode(tales().encode(text)), text);
    }
    EXPECT_EQ(tales().split(" a  " + bad + bad + " b"), (Pieces{" a", "  ", bad + bad, " b"}));
  }
}

TEST(Tokenizer, Case21RandomBytesSurvive) {
  std::mt19937 random(21);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i)
      text += static_cast<char>(random() % 4 ? random() : "a '\xE6\xAD"[i % 5]);
    std::string joined;
    for (const std::string& piece : tales().split(text)) joined += piece;
    ASSERT_EQ(joined, text);
    ASSERT_EQ(tales().decode(tales().encode(text)), text);
    ASSERT_EQ(tales().decode(tales().encode(text, Tokenizer::SpecialTokens::kAsIds)), text);
  }
}

TEST(SplitPattern, AMillionCharactersTakeLinearTime) {
  constexpr int64_t kMillion = 1'000'000;
  const SplitPattern pattern;
  struct LongText {
    std::string text;
    size_t pieces;
  };
  for (const auto& [text, pieces] :
       {LongText{std::string(kMillion, 'a'), 1}, LongText{repeat("\U0001F999", kMillion), 1},
        LongText{std::string(kMillion, ' '), 1}, LongText{std::string(kMillion, '\n') + "x", 3},
        LongText{std::string(kMillion, '\x80'), 1}, LongText{repeat("a\xFF", kMillion / 2), kMillion},
        LongText{repeat(" a", kMillion / 2), kMillion / 2}}) {
    const std::clock_t start = std::clock();  // of the processor: other programs do not count
    EXPECT_EQ(pattern.split(text).size(), pieces);
    // Usually under a second. Time that grows with the square comes to minutes.
    EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20) << text.substr(0, 4) << "...";
  }
}

/// The rule itself: look at all pairs, merge the lowest rank, the leftmost of equals; start again.
Ids merge_naively(Ids ids, const MergeTable& merges) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge* merge = merges.find(ids[i], ids[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        place = i;
      }
    }
    if (best == nullptr) return ids;
    ids[place] = best->result;
    ids.erase(ids.begin() + static_cast<int64_t>(place) + 1);
  }
}

/// 0 0 -> 1, 1 1 -> 2, ... : runs double.
MergeTable doubling_merges(int64_t count) {
  MergeTable merges;
  for (int64_t id = 0; id < count; ++id) merges.add(id, id, id + 1);
  return merges;
}

TEST(BytePairMerge, Case23StepsStayWithinNLogN) {
  const MergeTable merges = doubling_merges(20);
  for (const int64_t n : {1'000, 100'000}) {
    MergeCost cost;
    const Ids merged = merge_byte_pairs(Ids(n, 0), merges, &cost);
    EXPECT_LE(merged.size(), 20u);
    const double steps = static_cast<double>(cost.pairs_looked_up + cost.queue_comparisons);
    const double n_log_n = static_cast<double>(n) * std::log2(n);
    RecordProperty("steps_over_n_log_n_at_" + std::to_string(n), std::to_string(steps / n_log_n));
    EXPECT_GT(steps, n) << "nothing was counted";
    EXPECT_LE(steps, 4 * n_log_n);
  }
}

TEST(BytePairMerge, Case23SameIdsAsANaiveMerge) {
  std::mt19937 random(23);
  for (int table = 0; table < 200; ++table) {
    // Each merge joins two ids that letters or other merges give. Ranks are in no order, so that the result of a merge
    // may go before the merge itself, and equal neighbours come up.
    constexpr int64_t kLetters = 3, kMerges = 20;
    std::vector<std::array<int64_t, 3>> rules;
    for (int64_t result = kLetters; result < kLetters + kMerges; ++result) {
      rules.push_back({static_cast<int64_t>(random() % result), static_cast<int64_t>(random() % result), result});
    }
    if (table % 2 == 0) std::shuffle(rules.begin(), rules.end(), random);
    MergeTable merges;
    for (const auto& [left, right, result] : rules) merges.add(left, right, result);
    for (int word = 0; word < 50; ++word) {
      Ids ids(random() % 40);
      for (int64_t& id : ids) id = static_cast<int64_t>(random() % kLetters);
      ASSERT_EQ(merge_byte_pairs(ids, merges), merge_naively(ids, merges)) << testing::PrintToString(ids);
    }
  }
}

TEST(BytePairMerge, LowestRankFirstThenLeftmost) {
  MergeTable merges;
  EXPECT_TRUE(merges.add(1, 2, 12));
  EXPECT_TRUE(merges.add(0, 1, 11));
  EXPECT_FALSE(merges.add(0, 1, 13)) << "the second of two equal pairs";
  EXPECT_EQ(merge_byte_pairs({0, 1, 2}, merges), (Ids{0, 12}));
  EXPECT_EQ(merge_byte_pairs({0, 0, 0}, doubling_merges(1)), (Ids{1, 0}));
}

TEST(Tokenizer, Case24TheEmptyPromptHasNoIds) {
  EXPECT_EQ(tales().encode(""), Ids{});
  EXPECT_EQ(tales().encode("", Tokenizer::SpecialTokens::kAsIds), Ids{});
  EXPECT_EQ(tales().split(""), Pieces{});
  EXPECT_EQ(tales().decode({}), "");
}

TEST(Tokenizer, AnIdThatIsNotInTheVocabularyIsRefused) {
  for (const int64_t id : {int64_t{-1}, tales().size() + 100'000, INT64_MIN, INT64_MAX}) {
    EXPECT_FALSE(tales().knows(id));
    try {
      tales().decode({0, id});
      FAIL() << id;
    } catch (const c10::IndexError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find("id " + std::to_string(id)), std::string::npos);
    }
  }
}

TEST(ByteAlphabet, IsTheOneOfGpt2) {
  EXPECT_EQ(byte_to_character('a'), "a");
  EXPECT_EQ(byte_to_character(' '), "\u0120");
  EXPECT_EQ(byte_to_character('\n'), "\u010A");
  EXPECT_EQ(byte_to_character(0x00), "\u0100");
  EXPECT_EQ(byte_to_character(0x7F), "\u0121");
  EXPECT_EQ(byte_to_character(0xA0), "\u0142");
  EXPECT_EQ(byte_to_character(0xAD), "\u0143");
  EXPECT_EQ(byte_to_character(0xFF), "\u00FF");
  EXPECT_EQ(characters_to_bytes("\u0120caf\u00C3\u00A9"), " caf\xC3\xA9");
  EXPECT_EQ(characters_to_bytes("a b"), std::nullopt);
  EXPECT_EQ(characters_to_bytes("a\xFF"), std::nullopt);
}

/// The two files of a small vocabulary: 256 bytes, "ab" 256, "abc" 257, "<|endoftext|>" 258.
struct VocabularyFiles {
  std::string vocab;
  std::string merges = "#version: 0.2\na b\nab c\n";

  VocabularyFiles() {
    nlohmann::json entries;
    for (int byte = 0; byte < 256; ++byte) entries[byte_to_character(static_cast<uint8_t>(byte))] = byte;
    entries["ab"] = 256;
    entries["abc"] = 257;
    entries["<|endoftext|>"] = 258;
    vocab = entries.dump();
  }

  void add_entry(const std::string& entry_and_id) { vocab.insert(vocab.size() - 1, ", " + entry_and_id); }
  void replace(std::string& text, const std::string& old_part, const std::string& new_part) {
    ASSERT_NE(text.find(old_part), std::string::npos) << old_part;
    text.replace(text.find(old_part), old_part.size(), new_part);
  }
};

/// A folder that is deleted at the end of the test.
class VocabularyFolder {
 public:
  explicit VocabularyFolder(const VocabularyFiles& files) {
    path_ = fs::path(testing::TempDir()) / ("kvbook_tokenizer_" + std::to_string(std::random_device()()));
    fs::create_directories(path_);
    std::ofstream(path_ / "vocab.json", std::ios::binary) << files.vocab;
    std::ofstream(path_ / "merges.txt", std::ios::binary) << files.merges;
  }
  ~VocabularyFolder() { fs::remove_all(path_); }
  VocabularyFolder(const VocabularyFolder&) = delete;
  VocabularyFolder& operator=(const VocabularyFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(VocabularyFiles, TheSmallOneWorks) {
  const Tokenizer tokenizer(VocabularyFolder(VocabularyFiles()).path());
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(tokenizer.end_of_text(), 258);
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{257, 256}));
}

TEST(VocabularyFiles, LineEndsVersionLineAndEmptyLinesAtTheEndDoNotMatter) {
  VocabularyFiles files;
  for (const std::string merges :
       {"#version: 0.2\r\na b\r\nab c\r\n", "a b\nab c", "a b\nab c\n\n\r\n", "a b\r\nab c"}) {
    files.merges = merges;
    EXPECT_EQ(Tokenizer(VocabularyFolder(files).path()).encode("abcab"), (Ids{257, 256}))
        << testing::PrintToString(merges);
  }
}

TEST(VocabularyFiles, APairOfHashSignsIsAMergeAndNotAComment) {
  VocabularyFiles files;
  files.add_entry(R"("##": 300)");
  files.merges = "# #\na b\n";
  EXPECT_EQ(Tokenizer(VocabularyFolder(files).path()).encode("##"), Ids{300});
}

TEST(VocabularyFiles, GapsPaddingAndFurtherSpecialTokensAreLegal) {
  VocabularyFiles files;
  files.add_entry(R"("<|pad|>": 1000, "<|pad|>2|>": 1001, "<|caf\u00e9 \u4e00|>": 2147483647, "[unused]": 400)");
  const Tokenizer tokenizer(VocabularyFolder(files).path());
  EXPECT_EQ(tokenizer.size(), 263);
  EXPECT_TRUE(tokenizer.knows(400));
  EXPECT_FALSE(tokenizer.knows(401));
  const std::string text = "<|pad|><|pad|>2|>ab<|caf\u00e9 \u4e00|>";
  const Ids special = tokenizer.encode(text, Tokenizer::SpecialTokens::kAsIds);
  EXPECT_EQ(special, (Ids{1000, 1001, 256, 2147483647})) << "the longest special token wins";
  EXPECT_EQ(tokenizer.decode(special), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode({400}), "[unused]");
}

TEST(VocabularyFiles, AnEntryThatMergesMakeIsNotSpecialWhateverItLooksLike) {
  VocabularyFiles files;  // U+00A1 is the bytes C2 A1, in the byte alphabet U+00C2 U+00A1
  files.add_entry(R"("<|": 300, "|>": 301, "\u00c2\u00a1": 302, "<|\u00c2\u00a1": 303, "<|\u00c2\u00a1|>": 304)");
  files.merges = "< |\n| >\n\u00C2 \u00A1\n<| \u00C2\u00A1\n<|\u00C2\u00A1 |>\n";
  const Tokenizer tokenizer(VocabularyFolder(files).path());
  EXPECT_EQ(tokenizer.encode("<|\u00A1|>"), Ids{304});
  EXPECT_EQ(tokenizer.decode({304}), "<|\u00A1|>");
}

TEST(VocabularyFiles, WithoutEndOfTextThereIsNone) {
  VocabularyFiles files;
  files.replace(files.vocab, "<|endoftext|>", "endoftext");
  EXPECT_EQ(Tokenizer(VocabularyFolder(files).path()).end_of_text(), std::nullopt);
}

struct BrokenFiles {
  std::string name;
  std::string file;     // that the message must name
  std::string message;  // a piece of it
  std::function<void(VocabularyFiles&)> damage;
};

void PrintTo(const BrokenFiles& broken, std::ostream* out) { *out << broken.name; }

class BrokenVocabulary : public testing::TestWithParam<BrokenFiles> {};

void expect_refused(const fs::path& folder, const std::string& file, const std::string& message) {
  try {
    Tokenizer tokenizer(folder);
    FAIL() << "not refused";
  } catch (const c10::ValueError& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find((folder / file).string()), std::string::npos) << text;
    EXPECT_NE(text.find(message), std::string::npos) << text;
    EXPECT_NE(text.find("; "), std::string::npos) << "no remedy: " << text;
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) << text;
    EXPECT_LT(text.size(), 600u) << text;
  }
}

TEST_P(BrokenVocabulary, IsRefusedInOneLine) {
  VocabularyFiles files;
  GetParam().damage(files);
  expect_refused(VocabularyFolder(files).path(), GetParam().file, GetParam().message);
}

/// Adds an entry to vocab.json.
std::function<void(VocabularyFiles&)> entry(const std::string& entry_and_id) {
  return [=](VocabularyFiles& files) { files.add_entry(entry_and_id); };
}
std::function<void(VocabularyFiles&)> vocab(const std::string& text) {
  return [=](VocabularyFiles& files) { files.vocab = text; };
}
std::function<void(VocabularyFiles&)> merges(const std::string& text) {
  return [=](VocabularyFiles& files) { files.merges = text; };
}
/// Replaces a part of vocab.json.
std::function<void(VocabularyFiles&)> vocab_part(const std::string& old_part, const std::string& new_part) {
  return [=](VocabularyFiles& files) { files.replace(files.vocab, old_part, new_part); };
}

INSTANTIATE_TEST_SUITE_P(
    Vocab, BrokenVocabulary,
    testing::Values(
        BrokenFiles{"Empty", "vocab.json", "not valid JSON", vocab("")},
        BrokenFiles{"CutShort", "vocab.json", "not valid JSON",
                    [](VocabularyFiles& files) { files.vocab.resize(files.vocab.size() / 2); }},
        BrokenFiles{"UnfinishedString", "vocab.json", "not valid JSON", vocab("{\"" + std::string(5000, 'a'))},
        BrokenFiles{"NotUtf8", "vocab.json", "not valid JSON", entry("\"a\xFF\": 300")},
        BrokenFiles{"NulBytes", "vocab.json", "not valid JSON", vocab(std::string(100, '\0'))},
        BrokenFiles{"AList", "vocab.json", "not a JSON object", vocab("[1, 2]")},
        BrokenFiles{"ANumber", "vocab.json", "not a JSON object", vocab("5")},
        BrokenFiles{"DeeplyNested", "vocab.json", "nested deeper", vocab(repeat("[", 100'000))},
        BrokenFiles{"NestedEntry", "vocab.json", "is not an integer", entry(R"("x\u0120y": {"z": 1})")},
        BrokenFiles{"EntryTwice", "vocab.json", "\"ab\" appears twice", entry(R"("ab": 300)")},
        BrokenFiles{"IdTwice", "vocab.json", "have the same id 256", entry(R"("new": 256)")},
        BrokenFiles{"EmptyEntry", "vocab.json", "empty entry", entry(R"("": 300)")},
        BrokenFiles{"IdNegative", "vocab.json", "\"new\" is -1,", entry(R"("new": -1)")},
        BrokenFiles{"IdAbove31Bits", "vocab.json", "\"new\" is 2147483648,", entry(R"("new": 2147483648)")},
        BrokenFiles{"IdAbove63Bits", "vocab.json", "18446744073709551615", entry(R"("new": 18446744073709551615)")},
        BrokenFiles{"IdAbove64Bits", "vocab.json", "not an integer", entry(R"("new": 18446744073709551616)")},
        BrokenFiles{"IdTooLargeForANumber", "vocab.json", "too large", entry(R"("new": 1e999)")},
        BrokenFiles{"IdAFraction", "vocab.json", "not an integer", entry(R"("new": 300.0)")},
        BrokenFiles{"IdAString", "vocab.json", "not an integer", entry(R"("new": "300")")},
        BrokenFiles{"IdNull", "vocab.json", "not an integer", entry(R"("new": null)")},
        BrokenFiles{"IdABool", "vocab.json", "not an integer", entry(R"("new": true)")},
        BrokenFiles{"SpaceInAnEntry", "vocab.json", "\"a b\" has a character outside", entry(R"("a b": 300)")},
        BrokenFiles{"OtherCharacterInAnEntry", "vocab.json", "\"\\xe4\\xb8\\x80\" has a character",
                    entry(R"("一": 300)")},
        BrokenFiles{"LongEntryIsShortened", "vocab.json", "aaa...", entry("\"" + std::string(9999, 'a') + " \": 300")},
        BrokenFiles{"OneByteMissing", "vocab.json", "\"\\xc4\\xa0\" for byte 32 is missing", vocab_part("Ġ", "ĠĠ")}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Merges, BrokenVocabulary,
    testing::Values(
        BrokenFiles{"OneWord", "merges.txt", "line 2: \"ab\" is not two", merges("#version: 0.2\nab\n")},
        BrokenFiles{"ThreeWords", "merges.txt", "line 1: \"a b c\" is not two", merges("a b c\n")},
        BrokenFiles{"TwoSpaces", "merges.txt", "line 1", merges("a  b\n")},
        BrokenFiles{"SpaceFirst", "merges.txt", "line 1", merges(" a\n")},
        BrokenFiles{"SpaceLast", "merges.txt", "line 1", merges("a \n")},
        BrokenFiles{"ATab", "merges.txt", "line 1: \"a\\x09b\" is not two", merges("a\tb\n")},
        BrokenFiles{"EmptyLineInside", "merges.txt", "line 2: \"\" is not two", merges("a b\n\nab c\n")},
        BrokenFiles{"VersionNotFirst", "merges.txt", "line 2: \"#version:\" is not in", merges("a b\n#version: 0.2\n")},
        BrokenFiles{"LeftUnknown", "merges.txt", "line 1: \"zz\" is not in vocab.json", merges("zz a\n")},
        BrokenFiles{"RightUnknown", "merges.txt", "line 1: \"zz\" is not in vocab.json", merges("a zz\n")},
        BrokenFiles{"ResultUnknown", "merges.txt", "line 2: \"ba\" is not in vocab.json", merges("a b\nb a\n")},
        BrokenFiles{"Repeated", "merges.txt", "line 3: \"a b\" repeats", merges("a b\nab c\na b\n")},
        BrokenFiles{"NotUtf8", "merges.txt", "line 1: \"a\\xff\" is not in", merges("a\xFF b\n")},
        BrokenFiles{"NulBytes", "merges.txt", "line 1", merges(std::string(100, '\0'))}),
    [](const auto& info) { return info.param.name; });

TEST(BrokenVocabularyFolder, AMissingFileIsNamed) {
  for (const std::string file : {"vocab.json", "merges.txt"}) {
    const VocabularyFolder folder{VocabularyFiles()};
    fs::remove(folder.path() / file);
    expect_refused(folder.path(), file, "no such file");
    fs::create_directory(folder.path() / file);
    expect_refused(folder.path(), file, "not a regular file");
  }
  expect_refused(fs::path(testing::TempDir()) / "no such folder", "vocab.json", "no such file");
}

TEST(BrokenVocabularyFolder, AnEnormousFileIsNotRead) {
  const VocabularyFolder folder{VocabularyFiles()};
  fs::resize_file(folder.path() / "merges.txt", uintmax_t{1} << 40);  // a hole: takes no room on the disk
  expect_refused(folder.path(), "merges.txt", "are not read");
}

TEST(VocabularyFiles, AnyDamageIsRefusedOrHarmless) {
  std::mt19937 random(9);
  const VocabularyFiles whole;
  for (int round = 0; round < 300; ++round) {
    VocabularyFiles files;
    std::string& text = random() % 2 ? files.vocab : files.merges;
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      const size_t place = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[place] = static_cast<char>(random());
          break;
        case 1:
          text.erase(place, 1 + random() % 5);
          break;
        default:
          text.insert(place, text.substr(random() % text.size(), 1 + random() % 9));
      }
      if (text.empty()) break;
    }
    try {
      const Tokenizer tokenizer(VocabularyFolder(files).path());
      ASSERT_EQ(tokenizer.decode(tokenizer.encode("abc \xFF <|endoftext|>")), "abc \xFF <|endoftext|>");
    } catch (const c10::ValueError&) {
    }
  }
}

}  // namespace
}  // namespace kvbook

// Case 22: a stream of ids never prints half a character and loses nothing.
#include "common/streaming_decoder.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/tokenizer.h"

namespace kvbook {
namespace {

const Tokenizer& tales() {
  static const Tokenizer tokenizer(KVBOOK_DATA_FOLDER "/tales");
  return tokenizer;
}

/// The ids of single bytes, so that a test can send any bytes one at a time.
int64_t byte_id(char byte) {
  static const std::vector<int64_t> ids = [] {
    std::vector<int64_t> all;
    for (int i = 0; i < 256; ++i) all.push_back(tales().encode(std::string(1, static_cast<char>(i))).at(0));
    return all;
  }();
  return ids[static_cast<unsigned char>(byte)];
}

/// What each byte of the text makes the decoder return, then what finish returns.
std::vector<std::string> stream(const std::string& bytes) {
  StreamingDecoder decoder(tales());
  std::vector<std::string> printed;
  for (const char byte : bytes) printed.push_back(decoder.add(byte_id(byte)));
  printed.push_back(decoder.finish());
  return printed;
}

using Printed = std::vector<std::string>;

TEST(StreamingDecoder, Case22ALlamaAppearsWhole) {
  EXPECT_EQ(stream("\U0001F999"), (Printed{"", "", "", "\U0001F999", ""}));
  EXPECT_EQ(stream("a\u00E9\u4E00"), (Printed{"a", "", "\u00E9", "", "", "\u4E00", ""}));
}

TEST(StreamingDecoder, Case22AGenerationMayEndInsideACharacter) {
  EXPECT_EQ(stream("a\xF0\x9F\xA6"), (Printed{"a", "", "", "", "\xF0\x9F\xA6"}));
  EXPECT_EQ(stream(""), Printed{""});
}

TEST(StreamingDecoder, Case22AfterFinishTheNextTextStartsAnew) {
  StreamingDecoder decoder(tales());
  EXPECT_EQ(decoder.add(byte_id('\xE6')), "");
  EXPECT_EQ(decoder.finish(), "\xE6");
  EXPECT_EQ(decoder.add(byte_id('\xAD')), "\xAD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamingDecoder, Case22TogetherItIsTheBatchDecode) {
  const std::string text =
      "Once upon a time \U0001F999 met a caf\u00E9 \u65E5\u672C \xE6\xAD\xFF\x80<|endoftext|> \xF0\x9F";
  const std::vector<int64_t> ids = tales().encode(text, Tokenizer::SpecialTokens::kAsIds);
  StreamingDecoder decoder(tales());
  std::string printed;
  for (const int64_t id : ids) printed += decoder.add(id);
  printed += decoder.finish();
  EXPECT_EQ(printed, tales().decode(ids));
  EXPECT_EQ(printed, text);
}

TEST(StreamingDecoder, ASpecialTokenEndsAnUnfinishedCharacter) {
  StreamingDecoder decoder(tales());
  EXPECT_EQ(decoder.add(byte_id('\xE6')), "");
  EXPECT_EQ(decoder.add(tales().end_of_text().value()), "\xE6<|endoftext|>");
}

TEST(StreamingDecoder, BytesThatAreNoCharacterPassAtOnce) {
  EXPECT_EQ(stream("\x80\xFF"), (Printed{"\x80", "\xFF", ""}));
  EXPECT_EQ(stream("\xC0\x80"), (Printed{"\xC0", "\x80", ""}));              // overlong
  EXPECT_EQ(stream("\xE0\x80"), (Printed{"", "\xE0\x80", ""}));              // overlong, known at the second
  EXPECT_EQ(stream("\xED\xA0\x80"), (Printed{"", "\xED\xA0", "\x80", ""}));  // a surrogate
  EXPECT_EQ(stream("\xF4\x90"), (Printed{"", "\xF4\x90", ""}));              // above U+10FFFF
  EXPECT_EQ(stream("\xF5"), (Printed{"\xF5", ""}));                          // above U+10FFFF
  EXPECT_EQ(stream("\xE6\xE6\xAD\xA3"), (Printed{"", "\xE6", "", "\xE6\xAD\xA3", ""}));  // a new character begins
}

std::string utf8(uint32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

/// Every beginning of every character that is not yet the whole one, found by listing all characters.
std::set<std::string> unfinished_characters() {
  std::set<std::string> unfinished;
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;  // surrogates are no characters
    const std::string whole = utf8(c);
    for (size_t bytes = 1; bytes < whole.size(); ++bytes) unfinished.insert(whole.substr(0, bytes));
  }
  return unfinished;
}

TEST(StreamingDecoder, HoldsBackUnfinishedCharactersAndNothingElse) {
  const std::set<std::string> unfinished = unfinished_characters();
  // Every byte at which the rules of UTF-8 change, and its neighbours, in all sequences of three and some of five.
  const std::string edges =
      "\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF";
  const auto check = [&](const std::string& bytes) {
    StreamingDecoder decoder(tales());
    std::string sent, printed;
    for (const char byte : bytes) {
      sent += byte;
      printed += decoder.add(byte_id(byte));
      ASSERT_EQ(printed, sent.substr(0, printed.size()));
      std::string held;
      for (size_t tail = 1; tail <= std::min<size_t>(sent.size(), 3); ++tail) {
        if (unfinished.contains(sent.substr(sent.size() - tail))) held = sent.substr(sent.size() - tail);
      }
      ASSERT_EQ(sent.substr(printed.size()), held) << testing::PrintToString(bytes);
    }
    ASSERT_EQ(printed + decoder.finish(), bytes);
  };
  for (const char a : edges) {
    for (const char b : edges) {
      for (const char c : edges) check({a, b, c});
    }
  }
  std::mt19937 random(22);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (int i = 0; i < 5; ++i) bytes += edges[random() % edges.size()];
    check(bytes);
  }
}

TEST(StreamingDecoder, AnUnknownIdChangesNothing) {
  StreamingDecoder decoder(tales());
  EXPECT_EQ(decoder.add(byte_id('\xE6')), "");
  EXPECT_THROW(decoder.add(-1), c10::IndexError);
  EXPECT_EQ(decoder.add(byte_id('\xAD')), "");
  EXPECT_EQ(decoder.add(byte_id('\xA3')), "\xE6\xAD\xA3");
}

}  // namespace
}  // namespace kvbook

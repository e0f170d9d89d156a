// GPT-2's real vocabulary, where it has been fetched: KVBOOK_GPT2_TOKENIZER names the folder, else data/gpt2.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/streaming_decoder.h"
#include "common/tokenizer.h"
#include "tests/support/tokenizer_golden.h"

namespace kvbook {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

fs::path gpt2_folder() {
  const char* named = std::getenv("KVBOOK_GPT2_TOKENIZER");
  return named != nullptr ? named : KVBOOK_DATA_FOLDER "/gpt2";
}

class TokenizerGpt2 : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path folder = gpt2_folder();
    // A folder that was asked for by name must be there; the default one is optional.
    if (std::getenv("KVBOOK_GPT2_TOKENIZER") == nullptr &&
        !(fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))) {
      GTEST_SKIP() << "GPT-2's vocabulary is not in " << folder.string()
                   << "; 'make gpt2' fetches it, or KVBOOK_GPT2_TOKENIZER names a folder that has it";
    }
    tokenizer_ = &shared_tokenizer();
  }

  static const Tokenizer& shared_tokenizer() {
    static const Tokenizer tokenizer(gpt2_folder());
    return tokenizer;
  }

  const Tokenizer* tokenizer_ = nullptr;
};

TEST_F(TokenizerGpt2, Case20KnownIds) {
  EXPECT_EQ(tokenizer_->encode("Hello, I am"), (Ids{15496, 11, 314, 716}));
  EXPECT_EQ(tokenizer_->encode("<|endoftext|>"), (Ids{27, 91, 437, 1659, 5239, 91, 29}));
  EXPECT_EQ(tokenizer_->encode("<|endoftext|>", Tokenizer::SpecialTokens::kAsIds), Ids{50256});
  EXPECT_EQ(tokenizer_->size(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  EXPECT_EQ(tokenizer_->decode({15496, 11, 314, 716, 50256}), "Hello, I am<|endoftext|>");
}

TEST_F(TokenizerGpt2, Case20IdsAndPiecesAreTheReferences) {
  expect_matches_golden(*tokenizer_, read_tokenizer_golden(KVBOOK_DATA_FOLDER "/golden/tokenizer_gpt2.json"));
}

TEST_F(TokenizerGpt2, Case21EverySingleByteSurvives) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const Ids ids = tokenizer_->encode(text);
    EXPECT_EQ(ids.size(), 1u) << "byte " << byte;
    EXPECT_EQ(tokenizer_->decode(ids), text) << "byte " << byte;
  }
}

TEST_F(TokenizerGpt2, Case21EveryIdDecodesToTextThatSurvives) {
  for (int64_t id = 0; id < tokenizer_->size(); ++id) {
    ASSERT_TRUE(tokenizer_->knows(id));
    const std::string text = tokenizer_->decode({id});
    ASSERT_FALSE(text.empty()) << id;
    ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text) << id;
  }
}

TEST_F(TokenizerGpt2, Case22ALlamaAppearsWhole) {
  const std::string llama = "\U0001F999";
  const Ids ids = tokenizer_->encode(llama);
  ASSERT_GT(ids.size(), 1u);
  StreamingDecoder decoder(*tokenizer_);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(decoder.add(ids[i]), "");
  EXPECT_EQ(decoder.add(ids.back()), llama);
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace kvbook

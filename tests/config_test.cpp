// config.json is read with care: what the code does not compute, and what is malformed, is refused by name.
#include "common/config.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace kvbook {
namespace {

using nlohmann::json;

json smallest() { return {{"n_layer", 2}, {"n_head", 3}, {"n_embd", 12}, {"vocab_size", 50}, {"n_positions", 16}}; }

json with(const char* key, const json& value) {
  json config = smallest();
  config[key] = value;
  return config;
}

Gpt2Config parse(const json& config) { return parse_config(config.dump(), "config.json"); }

/// The message of the refusal, without the backtrace; empty if the text was accepted.
std::string refusal(const std::string& text) {
  try {
    parse_config(text, "config.json");
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(Config, TheRequiredKeysAreEnough) {
  const Gpt2Config config = parse(smallest());
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.heads, 3);
  EXPECT_EQ(config.embedding, 12);
  EXPECT_EQ(config.head_size(), 4);
  EXPECT_EQ(config.inner, 48);
  EXPECT_EQ(config.vocabulary, 50);
  EXPECT_EQ(config.context, 16);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.eos_id, std::nullopt);
}

TEST(Config, TheFileOfTheRealGpt2IsRead) {
  const Gpt2Config config = parse_config(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})",
                                         "config.json");
  EXPECT_EQ(config.layers, 12);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.embedding, 768);
  EXPECT_EQ(config.inner, 3072);
  EXPECT_EQ(config.vocabulary, 50257);
  EXPECT_EQ(config.context, 1024);
  EXPECT_EQ(config.eos_id, 50256);
}

TEST(Config, OptionalKeysAreRead) {
  json config = smallest();
  config.update({{"n_inner", 7}, {"layer_norm_epsilon", 0.5}, {"tie_word_embeddings", false}, {"eos_token_id", 0}});
  const Gpt2Config parsed = parse(config);
  EXPECT_EQ(parsed.inner, 7);
  EXPECT_EQ(parsed.layer_norm_epsilon, 0.5);
  EXPECT_FALSE(parsed.tied_head);
  EXPECT_EQ(parsed.eos_id, 0);
}

TEST(Config, NullInnerMeansFourTimesTheEmbedding) { EXPECT_EQ(parse(with("n_inner", nullptr)).inner, 48); }

TEST(Config, NullEndOfTextMeansNone) { EXPECT_EQ(parse(with("eos_token_id", nullptr)).eos_id, std::nullopt); }

TEST(Config, TheOldNameOfTheContextIsRead) {
  json config = with("n_ctx", 24);
  config.erase("n_positions");
  EXPECT_EQ(parse(config).context, 24);
}

TEST(Config, TwoContextLengthsMustAgree) {
  EXPECT_EQ(parse(with("n_ctx", 16)).context, 16);
  EXPECT_EQ(refusal(with("n_ctx", 17).dump()),
            "config.json: n_positions is 16 and n_ctx is 17: remove n_ctx if n_positions is right");
}

TEST(Config, TheOtherNameOfTheSameActivationIsAccepted) {
  EXPECT_NO_THROW(parse(with("activation_function", "gelu_pytorch_tanh")));
}

TEST(Config, TheLargestSizesAreAccepted) {
  json config = smallest();
  config.update({{"n_layer", 4096}, {"n_head", 4096}, {"n_embd", 1 << 20}, {"vocab_size", 1 << 24}});
  config["n_positions"] = 1 << 20;
  EXPECT_EQ(parse(config).inner, 1 << 22);
}

TEST(Config, EachRequiredKeyIsMissedByName) {
  for (const char* key : {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions"}) {
    json config = smallest();
    config.erase(key);
    EXPECT_EQ(refusal(config.dump()), "config.json: " + std::string(key) + " is missing");
  }
}

struct Refused {
  std::string name;  // of the test
  const char* key;
  json value;
  const char* message;  // a piece of it
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class ConfigRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ConfigRefuses, ByName) {
  const Refused& refused = GetParam();
  const std::string message = refusal(with(refused.key, refused.value).dump());
  EXPECT_NE(message.find(std::string("config.json: ") + refused.key), std::string::npos) << message;
  EXPECT_NE(message.find(refused.message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const std::vector<Refused> kRefused = {
    {"AnotherModel", "model_type", "llama", "is \"llama\", only gpt2"},
    {"AnotherActivation", "activation_function", "relu", "is \"relu\", only gelu_new"},
    {"TheExactGelu", "activation_function", "gelu", "is \"gelu\", only gelu_new"},
    {"UnscaledAttention", "scale_attn_weights", false, "is false, which this code does not compute"},
    {"ScalingByLayer", "scale_attn_by_inverse_layer_idx", true, "is true, which this code does not compute"},
    {"ReorderedAttention", "reorder_and_upcast_attn", true, "is true, which this code does not compute"},
    {"CrossAttention", "add_cross_attention", true, "is true, which this code does not compute"},
    {"HeadsThatDoNotDivide", "n_embd", 13, "is 13, which is not a multiple of n_head, 3"},
    {"ZeroLayers", "n_layer", 0, "is 0, expected 1 to 4096"},
    {"NegativeLayers", "n_layer", -1, "is -1, expected 1 to"},
    {"TooManyLayers", "n_layer", 4097, "is 4097, expected 1 to 4096"},
    {"TooManyHeads", "n_head", 4098, "expected 1 to 4096"},
    {"AWideEmbedding", "n_embd", int64_t{3} << 20, "expected 1 to 1048576"},
    {"AWideInner", "n_inner", int64_t{1} << 62, "expected 1 to 4194304"},
    {"ZeroInner", "n_inner", 0, "is 0, expected 1 to"},
    {"ALargeVocabulary", "vocab_size", (1 << 24) + 1, "expected 1 to 16777216"},
    {"ALongContext", "n_ctx", (1 << 20) + 1, "expected 1 to 1048576"},
    {"SizesBeyondInt64", "vocab_size", UINT64_MAX, "is 18446744073709551615, expected 1 to"},
    {"SizesBeyondEveryInteger", "vocab_size", 1e300, "is 1e+300, expected an integer"},
    {"AFraction", "n_layer", 2.5, "is 2.5, expected an integer"},
    {"AWholeFloat", "n_layer", 2.0, "is 2.0, expected an integer"},
    {"ASizeInQuotes", "n_head", "3", "is \"3\", expected an integer"},
    {"ASizeThatIsNull", "n_head", nullptr, "is null, expected an integer"},
    {"ASizeThatIsTrue", "n_head", true, "is true, expected an integer"},
    {"AListOfSizes", "n_embd", json::array({12}), "is [12], expected an integer"},
    {"ZeroEpsilon", "layer_norm_epsilon", 0, "expected a number above 0"},
    {"NegativeEpsilon", "layer_norm_epsilon", -1e-5, "expected a number above 0"},
    {"EpsilonInQuotes", "layer_norm_epsilon", "1e-5", "is \"1e-5\", expected a number"},
    {"EndOfTextOutside", "eos_token_id", 50, "is 50, expected 0 to 49"},
    {"NegativeEndOfText", "eos_token_id", -1, "is -1, expected 0 to 49"},
    {"SeveralEndsOfText", "eos_token_id", json::array({1, 2}), "is [1,2], expected an integer"},
    {"AFlagThatIsANumber", "add_cross_attention", 0, "is 0, expected true or false"},
    {"AFlagInQuotes", "tie_word_embeddings", "yes", "is \"yes\", expected true or false"},
    {"ANameThatIsANumber", "model_type", 2, "is 2, expected a string"},
    {"ANullActivation", "activation_function", nullptr, "is null, expected a string"},
    {"ALongValueCutShort", "n_layer", std::string(10000, 'x'), "xxx..., expected an integer"},
};

INSTANTIATE_TEST_SUITE_P(All, ConfigRefuses, testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

struct Malformed {
  std::string name;
  std::string text;
  const char* message;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

class MalformedConfig : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedConfig, IsRefusedInOneLine) {
  const std::string message = refusal(GetParam().text);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 300u) << message;
}

/// A whole file in which only this is wrong.
std::string smallest_and(const std::string& more) {
  std::string text = smallest().dump();
  text.pop_back();
  return text + "," + more + "}";
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedConfig,
    testing::Values(Malformed{"Empty", "", "not valid JSON"},  //
                    Malformed{"CutShort", R"({"n_layer": 2)", "not valid JSON near byte 14"},
                    Malformed{"TextAfterTheEnd", smallest().dump() + "x", "not valid JSON"},
                    Malformed{"NulAfterTheEnd", smallest().dump() + std::string("\0x", 2), "a NUL byte"},
                    Malformed{"NotUtf8", "{\"\xff\": 1}", "not valid JSON"},
                    Malformed{"AList", "[1]", "is array, expected an object"},
                    Malformed{"AKeyTwice", smallest_and(R"("n_layer": 3)"), "the key \"n_layer\" appears twice"},
                    Malformed{"AnInnerKeyTwice", smallest_and(R"("p": {"q": [{"r": 1, "r": 1}]})"), "the key \"r\""},
                    Malformed{"NotANumber", smallest_and(R"("layer_norm_epsilon": NaN)"), "not valid JSON"},
                    Malformed{"Infinity", smallest_and(R"("layer_norm_epsilon": Infinity)"), "not valid JSON"},
                    Malformed{"ANumberBeyondDouble", smallest_and(R"("layer_norm_epsilon": 1e999)"), "too large"},
                    Malformed{"DeepLists", smallest_and("\"x\": " + std::string(100000, '[')), "nested deeper"},
                    Malformed{"DeepClosedLists",
                              smallest_and("\"x\": " + std::string(100000, '[') + std::string(100000, ']')),
                              "nested deeper"},
                    Malformed{"ALongKeyTwice",
                              smallest_and("\"" + std::string(5000, 'k') + "\":1,\"" + std::string(5000, 'k') + "\":1"),
                              "kkk...\" appears twice"},
                    Malformed{"AKeyWithANewlineTwice", smallest_and(R"("\n": 1, "\n": 1)"), "\\x0a"}),
    [](const auto& info) { return info.param.name; });

TEST(Config, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_EQ(refusal(smallest_and(R"("a": {"n_layer": 1, "x": {"n_layer": 1}}, "b": [{"y": 1}, {"y": 1}])")), "");
}

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() : folder_(std::filesystem::path(testing::TempDir()) / "kvbook_config_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ConfigFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(folder_ / "config.json", std::ios::binary) << text; }

  std::string file_refusal() const {
    try {
      read_config(folder_);
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFile, IsReadFromItsFolder) {
  write(smallest().dump(2));
  EXPECT_EQ(read_config(folder_).vocabulary, 50);
}

TEST_F(ConfigFile, MissingIsRefusedByItsPath) {
  EXPECT_EQ(file_refusal(), (folder_ / "config.json").string() + ": no such file");
}

TEST_F(ConfigFile, FaultsNameThePath) {
  write("{}");
  EXPECT_EQ(file_refusal(), (folder_ / "config.json").string() + ": n_layer is missing");
}

TEST_F(ConfigFile, HugeIsRefusedUnread) {
  write("");
  std::filesystem::resize_file(folder_ / "config.json", int64_t{1} << 40);  // sparse: takes no room on the disk
  EXPECT_NE(file_refusal().find("has 1099511627776 bytes, more than 1048576 are not read"), std::string::npos);
}

TEST_F(ConfigFile, AFolderOfThatNameIsRefused) {
  std::filesystem::create_directory(folder_ / "config.json");
  EXPECT_NE(file_refusal().find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace kvbook

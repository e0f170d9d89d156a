// A checkpoint has exactly the tensors of its configuration, with exactly the values of the file.
#include "common/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace kvbook {
namespace {

using torch::Tensor;

std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(KVBOOK_DATA_FOLDER) / "golden" / name;
}

// What the file of a test holds.

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, Stored>;

std::string bytes_of(const Tensor& tensor) {
  const Tensor plain = tensor.contiguous();
  return std::string(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
}

Stored float32(const Tensor& values) { return {"F32", values.sizes().vec(), bytes_of(values.to(torch::kFloat32))}; }

constexpr char kConfig[] = R"({"n_layer":2,"n_head":1,"n_embd":2,"vocab_size":3,"n_positions":2,"n_inner":5)";

/// A model of two layers and E 2 in which every number is another one.
StoredTensors small_model() {
  StoredTensors tensors;
  float next = 1;
  for (const auto& [name, shape] : weight_shapes(parse_config(std::string(kConfig) + "}", "config.json"))) {
    const int64_t count = c10::multiply_integers(shape);
    tensors[name] = float32(torch::arange(next, next + count, torch::kFloat32).reshape(shape));
    next += count;
  }
  return tensors;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest()
      : folder_(std::filesystem::path(testing::TempDir()) / ("kvbook_checkpoint_test_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  void write(const StoredTensors& tensors, const std::string& more_config = "") const {
    std::ofstream(folder_ / "config.json", std::ios::binary) << kConfig << more_config << "}";
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const size_t end = data.size() + tensor.bytes.size();
      header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data.size(), end}}};
      data += tensor.bytes;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream(folder_ / "model.safetensors", std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&length), sizeof length) << text << data;
  }

  Checkpoint load(torch::ScalarType dtype = torch::kFloat32) const { return load_checkpoint(folder_, dtype); }

  /// The message of the refusal, without the backtrace; empty if the checkpoint is loaded.
  std::string refusal(torch::ScalarType dtype = torch::kFloat32) const {
    try {
      load(dtype);
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }

  std::filesystem::path folder_;
};

#define EXPECT_SAYS(message, piece) EXPECT_NE((message).find(piece), std::string::npos) << (message)

TEST_F(CheckpointTest, TheSmallModelIsLoaded) {
  write(small_model());
  const Checkpoint checkpoint = load();
  EXPECT_EQ(checkpoint.config.layers, 2);
  EXPECT_EQ(checkpoint.weights.size(), 2u * 12 + 4);
  EXPECT_TRUE(checkpoint.weights.at("h.0.attn.c_attn.bias").equal(torch::arange(1, 7, torch::kFloat32)));
}

// The numbers are those that transformers has after loading the same file.

struct Golden {
  std::string model;
  std::string name;
  std::vector<int64_t> shape;
  double sum;     // of all elements, added in double
  double second;  // element 1 in the order of the file
  double last_but_one;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.model << " " << golden.name; }

class GoldenWeights : public testing::TestWithParam<Golden> {};

TEST_P(GoldenWeights, EqualThoseOfTransformers) {
  const Golden& golden = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Checkpoint checkpoint = load_checkpoint(golden_folder(golden.model), dtype);
    const Tensor& weight = checkpoint.weights.at(golden.name);
    ASSERT_EQ(weight.scalar_type(), dtype);
    ASSERT_EQ(weight.sizes(), golden.shape);
    const Tensor values = weight.to(torch::kFloat64).flatten();
    EXPECT_NEAR(values.sum().item<double>(), golden.sum, 1e-12 * values.abs().sum().item<double>());
    EXPECT_EQ(values[1].item<double>(), golden.second);
    EXPECT_EQ(values[-2].item<double>(), golden.last_but_one);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GoldenWeights,
    testing::Values(
        Golden{"nano", "wte.weight", {16, 8}, 10.547937467694283, 1.1383676528930664, -0.136883944272995},
        Golden{"nano", "wpe.weight", {8, 8}, -5.795547898858786, 0.04939607158303261, -1.430556058883667},
        Golden{"nano", "h.0.attn.c_attn.weight", {8, 24}, 3.113025775179267, -0.2242826372385025, 0.460822731256485},
        Golden{"nano", "h.0.attn.c_attn.bias", {24}, -1.60679991543293, -0.14853042364120483, -0.02883734367787838},
        Golden{"nano", "h.1.attn.c_proj.weight", {8, 8}, -1.9285238296724856, 0.15799327194690704, 0.7373524904251099},
        Golden{"tiny", "wte.weight", {97, 24}, -4.168886420731724, -0.07526258379220963, 0.5380702614784241},
        Golden{"tiny", "h.1.mlp.c_fc.weight", {24, 96}, 7.1343563383125, 0.11017803847789764, -0.3335261344909668},
        Golden{
            "tiny", "h.1.mlp.c_proj.weight", {96, 24}, 0.44271866184135433, 0.04174013063311577, -0.014310111291706562},
        Golden{"tiny", "h.1.ln_2.weight", {24}, 23.637263476848602, 1.05228853225708, 1.0116207599639893},
        Golden{"tiny", "ln_f.bias", {24}, -0.10823399992659688, -0.03429008647799492, 0.0530766062438488}),
    [](const auto& info) {
      std::string name = info.param.model + "_" + info.param.name;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

TEST(Checkpoint, LinearWeightsAreLaidOutAsAtLinearReadsThem) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    const Checkpoint checkpoint = load_checkpoint(golden_folder("tiny"), dtype);
    for (const auto& [name, weight] : checkpoint.weights) {
      const bool linear = name.find(".c_") != std::string::npos && weight.dim() == 2;
      EXPECT_TRUE(linear ? weight.t().is_contiguous() : weight.is_contiguous()) << name;
    }
  }
}

TEST(Checkpoint, NoGradientIsAskedFor) {
  for (const auto& [name, weight] : load_checkpoint(golden_folder("nano"), torch::kFloat32).weights) {
    EXPECT_FALSE(weight.requires_grad()) << name;
  }
}

// Conversions. A bfloat16 number has 8 significant bits: those next to 1 are 2^-7 apart.

TEST_F(CheckpointTest, BFloat16RoundsToTheNearestAndTiesToEven) {
  StoredTensors tensors = small_model();
  const double half = std::ldexp(1.0, -8);
  const double little = std::ldexp(1.0, -20);
  tensors["wpe.weight"] = float32(torch::tensor({{1 + half, 1 + half + little}, {1 + 3 * half, -1 - half}}));
  write(tensors);
  const Tensor want = torch::tensor({{1.0, 1 + 2 * half}, {1 + 4 * half, -1.0}}, torch::kFloat64);
  EXPECT_TRUE(load(torch::kBFloat16).weights.at("wpe.weight").to(torch::kFloat64).equal(want));
}

TEST_F(CheckpointTest, HalfPrecisionFilesKeepTheirValues) {
  const Tensor values = torch::tensor({{1.0 / 3, 65504.0}, {5.9604644775390625e-8, -2.0}}, torch::kFloat64);
  for (const auto& [name, dtype] : {std::pair{"F16", torch::kFloat16}, std::pair{"BF16", torch::kBFloat16}}) {
    StoredTensors tensors = small_model();
    const Tensor stored = values.to(dtype);
    tensors["h.1.attn.c_proj.weight"] = {name, {2, 2}, bytes_of(stored)};
    write(tensors);
    for (const auto wide : {torch::kFloat32, torch::kFloat64}) {
      const Tensor loaded = load(wide).weights.at("h.1.attn.c_proj.weight");
      EXPECT_EQ(loaded.scalar_type(), wide);
      EXPECT_TRUE(loaded.to(torch::kFloat64).equal(stored.to(torch::kFloat64))) << name;
    }
  }
}

TEST_F(CheckpointTest, WeightsOfOtherDtypesAreRefused) {
  StoredTensors tensors = small_model();
  tensors["ln_f.bias"] = {"I32", {2}, std::string(8, '\0')};
  write(tensors);
  EXPECT_SAYS(refusal(), "tensor \"ln_f.bias\" is I32, only F32, F16 and BF16 are loaded");
}

TEST_F(CheckpointTest, OtherDtypesToComputeInAreRefused) {
  write(small_model());
  EXPECT_SAYS(refusal(torch::kFloat16), "float32, float64 or bfloat16, not Half");
  EXPECT_SAYS(refusal(torch::kInt64), "float32, float64 or bfloat16, not Long");
}

// Case 14.

TEST_F(CheckpointTest, Case14MaskBuffersOfAnyDtypeAreIgnored) {
  const size_t without_masks = small_model().size();
  for (const auto& [dtype, bytes] :
       {std::pair{"BOOL", 1}, std::pair{"U8", 1}, std::pair{"F32", 4}, std::pair{"F64", 8}}) {
    StoredTensors tensors = small_model();
    for (const char* layer : {"h.0.", "h.1."}) {
      tensors[std::string(layer) + "attn.bias"] = {dtype, {1, 1, 2, 2}, std::string(4 * bytes, '\1')};
      tensors[std::string(layer) + "attn.masked_bias"] = {dtype, {}, std::string(bytes, '\1')};
    }
    write(tensors);
    EXPECT_EQ(refusal(), "") << dtype;
    EXPECT_EQ(load().weights.size(), without_masks);
  }
}

TEST_F(CheckpointTest, Case14ARangeThatDoesNotFitAMaskIsRefused) {
  StoredTensors tensors = small_model();
  tensors["h.0.attn.bias"] = {"BOOL", {1, 1, 2, 2}, "123"};
  write(tensors);
  EXPECT_SAYS(refusal(), "\"h.0.attn.bias\" of dtype BOOL and shape [1, 1, 2, 2] needs 4 bytes, its range has 3");
}

TEST_F(CheckpointTest, Case14MasksOfLayersThatDoNotExistAreUnknown) {
  for (const char* name : {"h.2.attn.bias", "h.00.attn.bias", "h.-1.attn.bias", "h.0.attn.bias.x", "attn.bias"}) {
    StoredTensors tensors = small_model();
    tensors[name] = {"U8", {1}, "1"};
    write(tensors);
    EXPECT_SAYS(refusal(), std::string("unknown \"") + name + "\"");
  }
}

TEST_F(CheckpointTest, Case14TheBiasOfQueriesKeysAndValuesIsAWeight) {
  StoredTensors tensors = small_model();
  write(tensors);
  EXPECT_EQ(load().weights.at("h.0.attn.c_attn.bias")[0].item<float>(), 1.0f);
  tensors.erase("h.0.attn.c_attn.bias");
  write(tensors);
  EXPECT_SAYS(refusal(), "missing \"h.0.attn.c_attn.bias\"");
}

TEST_F(CheckpointTest, Case14ThePrefixIsOptional) {
  write(small_model());
  const Checkpoint plain = load();
  StoredTensors prefixed;
  for (const auto& [name, tensor] : small_model()) prefixed["transformer." + name] = tensor;
  prefixed["transformer.h.0.attn.bias"] = {"U8", {1}, "1"};
  write(prefixed);
  const Checkpoint loaded = load();
  ASSERT_EQ(loaded.weights.size(), plain.weights.size());
  for (const auto& [name, weight] : plain.weights) EXPECT_TRUE(loaded.weights.at(name).equal(weight)) << name;
}

TEST_F(CheckpointTest, Case14BothFormsOfANameAreRefused) {
  StoredTensors tensors = small_model();
  tensors["transformer.ln_f.bias"] = tensors["ln_f.bias"];
  write(tensors);
  EXPECT_SAYS(refusal(), "has \"ln_f.bias\" with and without the prefix transformer.");
}

TEST_F(CheckpointTest, Case14AHeadThatEqualsTheEmbeddingIsAccepted) {
  StoredTensors tensors = small_model();
  tensors["lm_head.weight"] = tensors["wte.weight"];
  for (const char* tied : {"", ",\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":false"}) {
    write(tensors, tied);
    EXPECT_EQ(refusal(), "");
    EXPECT_EQ(load().weights.count("lm_head.weight"), 0u);
  }
}

TEST_F(CheckpointTest, Case14AnotherHeadIsRefused) {
  StoredTensors tensors = small_model();
  Stored head = tensors["wte.weight"];
  head.bytes.back() ^= 1;
  tensors["lm_head.weight"] = head;
  for (const char* tied : {"", ",\"tie_word_embeddings\":false"}) {
    write(tensors, tied);
    EXPECT_SAYS(refusal(), "lm_head.weight differs from wte.weight");
  }
  tensors["lm_head.weight"] = float32(torch::zeros({2, 2}));
  write(tensors);
  EXPECT_SAYS(refusal(), "lm_head.weight differs from wte.weight");
}

TEST_F(CheckpointTest, Case14AHeadOfItsOwnThatIsMissingIsRefused) {
  write(small_model(), ",\"tie_word_embeddings\":false");
  EXPECT_SAYS(refusal(), "missing \"lm_head.weight\": config.json has tie_word_embeddings false");
}

TEST_F(CheckpointTest, Case14TheHeadHasNoPrefix) {
  StoredTensors tensors = small_model();
  tensors["transformer.lm_head.weight"] = tensors["wte.weight"];
  write(tensors);
  EXPECT_SAYS(refusal(), "unknown \"transformer.lm_head.weight\"");
}

TEST_F(CheckpointTest, Case14MissingAndUnknownNamesAreListed) {
  StoredTensors tensors = small_model();
  tensors.erase("ln_f.bias");
  tensors.erase("h.1.mlp.c_fc.weight");
  tensors["h.2.ln_1.bias"] = tensors["ln_f.weight"];
  tensors["score.weight"] = tensors["ln_f.weight"];
  write(tensors);
  EXPECT_SAYS(refusal(), R"(missing "h.1.mlp.c_fc.weight", "ln_f.bias": unknown "h.2.ln_1.bias", "score.weight")");
}

TEST_F(CheckpointTest, Case14AfterFiveNamesTheRestIsCounted) {
  StoredTensors tensors = small_model();
  for (int i = 0; i < 7; ++i) tensors[fmt::format("x{}", i)] = {"U8", {1}, "1"};
  write(tensors);
  EXPECT_SAYS(refusal(), R"(unknown "x0", "x1", "x2", "x3", "x4" and 2 more)");
}

TEST_F(CheckpointTest, WrongShapesNameBoth) {
  StoredTensors tensors = small_model();
  tensors["h.0.mlp.c_fc.weight"].shape = {5, 2};  // as many numbers, transposed
  tensors["ln_f.bias"].shape = {2, 1};
  write(tensors);
  EXPECT_SAYS(refusal(), R"("h.0.mlp.c_fc.weight" has shape [5, 2], expected [2, 5])");
  EXPECT_SAYS(refusal(), R"("ln_f.bias" has shape [2, 1], expected [2])");
}

TEST_F(CheckpointTest, AFolderThatIsMissingIsRefused) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(refusal(), folder_.string() + ": not a folder; give one with config.json and model.safetensors");
}

TEST_F(CheckpointTest, AFileOfWeightsThatIsMissingIsRefused) {
  write(small_model());
  std::filesystem::remove(folder_ / "model.safetensors");
  EXPECT_EQ(refusal(), (folder_ / "model.safetensors").string() + ": no such file");
}

// Sizes.

TEST(Checkpoint, Case18TheHeadOfGpt2IsTheEmbedding) {
  const Gpt2Config config = gpt2_124m_config();
  EXPECT_EQ(parameter_count(config), 124'439'808);
  EXPECT_NE(parameter_count(config), 163'037'184);  // with a head of its own
}

TEST(Checkpoint, TheGoldenModelsHaveTheirPublishedSizes) {
  EXPECT_EQ(parameter_count(read_config(golden_folder("nano"))), 1952);
  EXPECT_EQ(parameter_count(read_config(golden_folder("tiny"))), 25584);
}

TEST(Checkpoint, ShapesOfAnEmptyConfigurationAreRefused) { EXPECT_THROW(weight_shapes(Gpt2Config{}), c10::ValueError); }

// Seeded weights.

bool same_weights(const Checkpoint& a, const Checkpoint& b) {
  if (a.weights.size() != b.weights.size()) return false;
  for (const auto& [name, weight] : a.weights) {
    if (!weight.equal(b.weights.at(name))) return false;
  }
  return true;
}

class RandomCheckpoint : public testing::Test {
 protected:
  const Gpt2Config config_ = read_config(golden_folder("tiny"));
};

TEST_F(RandomCheckpoint, IsTheSameForTheSameSeedWhateverWasDrawnBefore) {
  const Checkpoint first = random_checkpoint(config_, 7, torch::kFloat32);
  torch::rand({3});
  EXPECT_TRUE(same_weights(first, random_checkpoint(config_, 7, torch::kFloat32)));
  EXPECT_FALSE(same_weights(first, random_checkpoint(config_, 8, torch::kFloat32)));
}

TEST_F(RandomCheckpoint, DrawsNothingFromTheSharedGenerator) {
  torch::manual_seed(3);
  const Tensor want = torch::rand({4});
  torch::manual_seed(3);
  random_checkpoint(config_, 7, torch::kFloat32);
  EXPECT_TRUE(torch::rand({4}).equal(want));
}

TEST_F(RandomCheckpoint, IsDrawnInFloat32AndThenConverted) {
  const Checkpoint single = random_checkpoint(config_, 7, torch::kFloat32);
  const Checkpoint wide = random_checkpoint(config_, 7, torch::kFloat64);
  const Checkpoint narrow = random_checkpoint(config_, 7, torch::kBFloat16);
  for (const auto& [name, weight] : single.weights) {
    EXPECT_TRUE(wide.weights.at(name).equal(weight.to(torch::kFloat64))) << name;
    EXPECT_TRUE(narrow.weights.at(name).equal(weight.to(torch::kBFloat16))) << name;
  }
}

TEST_F(RandomCheckpoint, HasTheShapesAndTheLayoutOfAFile) {
  const Checkpoint file = load_checkpoint(golden_folder("tiny"), torch::kFloat32);
  const Checkpoint random = random_checkpoint(config_, 7, torch::kFloat32);
  ASSERT_EQ(random.weights.size(), file.weights.size());
  for (const auto& [name, weight] : file.weights) {
    EXPECT_EQ(random.weights.at(name).sizes(), weight.sizes()) << name;
    EXPECT_EQ(random.weights.at(name).strides(), weight.strides()) << name;
    EXPECT_FALSE(random.weights.at(name).requires_grad()) << name;
  }
}

TEST_F(RandomCheckpoint, RefusesOtherDtypes) {
  EXPECT_THROW(random_checkpoint(config_, 7, torch::kFloat16), c10::ValueError);
}

/// Python drew the same numbers and had transformers generate from them; so its tokens are an oracle for ours.
TEST(RandomGpt2, HasTheWeightsOfItsGoldenFile) {
  std::ifstream stream(golden_folder("gpt2_random.json"));
  const nlohmann::json golden = nlohmann::json::parse(stream);
  const Checkpoint checkpoint = random_checkpoint(gpt2_124m_config(), golden.at("seed"), torch::kFloat32);
  for (const auto& [name, numbers] : golden.at("weights").items()) {
    const Tensor values = checkpoint.weights.at(name).to(torch::kFloat64).flatten();
    const double sum_of_sizes = values.abs().sum().item<double>();
    EXPECT_NEAR(values.sum().item<double>(), numbers.at("sum").get<double>(), 1e-12 * sum_of_sizes) << name;
    EXPECT_EQ(values[0].item<double>(), numbers.at("first").get<double>()) << name;
    EXPECT_EQ(values[-1].item<double>(), numbers.at("last").get<double>()) << name;
  }
}

}  // namespace
}  // namespace kvbook

#include "common/config.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/input_file.h"
#include "common/strict_json.h"

namespace kvbook {
namespace {

using nlohmann::json;

constexpr int64_t kLargestFile = int64_t{1} << 20;

// The largest product taken of them, bytes of all keys and values: 2·L·E·C·8 < 2^57.
constexpr int64_t kMostLayers = int64_t{1} << 12;
constexpr int64_t kMostHeads = int64_t{1} << 12;
constexpr int64_t kWidestEmbedding = int64_t{1} << 20;
constexpr int64_t kWidestInner = int64_t{1} << 22;
constexpr int64_t kLargestVocabulary = int64_t{1} << 24;
constexpr int64_t kLongestContext = int64_t{1} << 20;

/// The keys of one config.json, with messages that name the file and the key.
class Keys {
 public:
  Keys(const json& object, const std::string& where) : object_(object), where_(where) {}

  bool has(const char* key) const { return object_.contains(key); }
  bool has_value(const char* key) const { return has(key) && !object_[key].is_null(); }

  int64_t size(const char* key, int64_t largest) const {
    TORCH_CHECK_VALUE(has(key), where_, ": ", key, " is missing");
    const int64_t value = integer(key);
    TORCH_CHECK_VALUE(value > 0 && value <= largest, where_, ": ", key, " is ", shown(key), ", expected 1 to ",
                      largest);
    return value;
  }

  /// A number above int64 comes back as the largest int64, which every caller refuses.
  int64_t integer(const char* key) const {
    const json& value = object_[key];
    check_type(key, value.is_number_integer(), "an integer");
    if (!value.is_number_unsigned()) return value.get<int64_t>();
    return static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), INT64_MAX));
  }

  double number(const char* key, double fallback) const {
    if (!has(key)) return fallback;
    check_type(key, object_[key].is_number(), "a number");
    return object_[key].get<double>();
  }

  bool flag(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    check_type(key, object_[key].is_boolean(), "true or false");
    return object_[key].get<bool>();
  }

  std::string text(const char* key, const char* fallback) const {
    if (!has(key)) return fallback;
    check_type(key, object_[key].is_string(), "a string");
    return object_[key].get<std::string>();
  }

  /// Refuses a flag that has not its usual value.
  void require(const char* key, bool usual) const {
    TORCH_CHECK_VALUE(flag(key, usual) == usual, where_, ": ", key, " is ", shown(key),
                      ", which this code does not compute: use a model with ", usual ? "true" : "false");
  }

  const std::string& where() const { return where_; }

 private:
  void check_type(const char* key, bool right, const char* expected) const {
    TORCH_CHECK_VALUE(right, where_, ": ", key, " is ", shown(key), ", expected ", expected);
  }

  /// The value as JSON in ASCII, on one line, cut when long.
  std::string shown(const char* key) const {
    constexpr size_t kLongest = 60;
    const std::string all = object_[key].dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/true);
    return all.size() <= kLongest ? all : all.substr(0, kLongest) + "...";
  }

  const json& object_;
  const std::string& where_;
};

/// Everything that would give other logits than this code computes.
void refuse_other_models(const Keys& keys) {
  const std::string model = keys.text("model_type", "gpt2");
  TORCH_CHECK_VALUE(model == "gpt2", keys.where(), ": model_type is ", quoted_name(model), ", only gpt2 is computed");

  // gelu_pytorch_tanh is the same formula under another name: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
  const std::string activation = keys.text("activation_function", "gelu_new");
  TORCH_CHECK_VALUE(activation == "gelu_new" || activation == "gelu_pytorch_tanh", keys.where(),
                    ": activation_function is ", quoted_name(activation), ", only gelu_new is computed");

  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("reorder_and_upcast_attn", false);  // the same function, rounded otherwise: refused all the same
  keys.require("add_cross_attention", false);
}

int64_t read_context(const Keys& keys) {
  if (!keys.has("n_ctx")) return keys.size("n_positions", kLongestContext);
  const int64_t old_name = keys.size("n_ctx", kLongestContext);
  if (!keys.has("n_positions")) return old_name;
  const int64_t context = keys.size("n_positions", kLongestContext);
  TORCH_CHECK_VALUE(context == old_name, keys.where(), ": n_positions is ", context, " and n_ctx is ", old_name,
                    ": remove n_ctx if n_positions is right");
  return context;
}

/// One id or none. A list, which some newer models have, is refused: a generation here ends at one token.
std::optional<int64_t> read_eos(const Keys& keys, int64_t vocabulary) {
  if (!keys.has_value("eos_token_id")) return std::nullopt;
  const int64_t id = keys.integer("eos_token_id");
  TORCH_CHECK_VALUE(id >= 0 && id < vocabulary, keys.where(), ": eos_token_id is ", id, ", expected 0 to ",
                    vocabulary - 1, " (vocab_size - 1)");
  return id;
}

}  // namespace

Gpt2Config parse_config(const std::string& text, const std::string& where) {
  const json object = parse_strict_json(text, where);
  TORCH_CHECK_VALUE(object.is_object(), where, ": is ", object.type_name(), ", expected an object");
  const Keys keys(object, where);
  refuse_other_models(keys);

  Gpt2Config config;
  config.layers = keys.size("n_layer", kMostLayers);
  config.heads = keys.size("n_head", kMostHeads);
  config.embedding = keys.size("n_embd", kWidestEmbedding);
  TORCH_CHECK_VALUE(config.embedding % config.heads == 0, where, ": n_embd is ", config.embedding,
                    ", which is not a multiple of n_head, ", config.heads);
  config.inner = keys.has_value("n_inner") ? keys.size("n_inner", kWidestInner) : 4 * config.embedding;
  config.vocabulary = keys.size("vocab_size", kLargestVocabulary);
  config.context = read_context(keys);
  config.layer_norm_epsilon = keys.number("layer_norm_epsilon", config.layer_norm_epsilon);
  TORCH_CHECK_VALUE(config.layer_norm_epsilon > 0 && std::isfinite(config.layer_norm_epsilon), where,
                    ": layer_norm_epsilon is ", config.layer_norm_epsilon, ", expected a number above 0");
  config.tied_head = keys.flag("tie_word_embeddings", true);
  config.eos_id = read_eos(keys, config.vocabulary);
  return config;
}

Gpt2Config read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return parse_config(read_text(path, kLargestFile), path.string());
}

}  // namespace kvbook

#include "common/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string_view>
#include <system_error>

#include "common/safetensors.h"
#include "common/strict_json.h"

namespace kvbook {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "wte.weight";

/// "a, b, c, d, e and 7 more".
std::string listed(const std::vector<std::string>& items) {
  constexpr size_t kShown = 5;
  if (items.size() <= kShown) return fmt::format("{}", fmt::join(items, ", "));
  return fmt::format("{} and {} more", fmt::join(items.begin(), items.begin() + kShown, ", "), items.size() - kShown);
}

std::string without_prefix(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

/// What the file has under each plain name: plain name -> name in the file.
std::map<std::string, std::string> plain_names(const SafetensorsFile& file, const std::string& where) {
  std::map<std::string, std::string> names;
  for (const auto& [name, entry] : file.entries()) {
    const bool is_new = names.emplace(without_prefix(name), name).second;
    TORCH_CHECK_VALUE(is_new, where, ": has ", quoted_name(without_prefix(name)), " with and without the prefix ",
                      kPrefix);
  }
  return names;
}

/// Causal masks that old files store beside the weights.
std::set<std::string> mask_buffers(const Gpt2Config& config) {
  std::set<std::string> names;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    names.insert(fmt::format("h.{}.attn.bias", layer));
    names.insert(fmt::format("h.{}.attn.masked_bias", layer));
  }
  return names;
}

using Shapes = std::map<std::string, std::vector<int64_t>>;
using Names = std::map<std::string, std::string>;

void check_names(const Names& names, const Shapes& wanted, const Gpt2Config& config, const std::string& where) {
  std::vector<std::string> missing;
  for (const auto& [name, shape] : wanted) {
    if (!names.contains(name)) missing.push_back(quoted_name(name));
  }
  const std::set<std::string> masks = mask_buffers(config);
  std::vector<std::string> unknown;
  for (const auto& [name, name_in_file] : names) {
    const bool known = wanted.contains(name) || masks.contains(name) || name_in_file == kHead;
    if (!known) unknown.push_back(quoted_name(name_in_file));
  }
  TORCH_CHECK_VALUE(missing.empty() && unknown.empty(), where, ": not the tensors of its config.json",
                    missing.empty() ? "" : ": missing ", listed(missing), unknown.empty() ? "" : ": unknown ",
                    listed(unknown));
  TORCH_CHECK_VALUE(config.tied_head || names.contains(kHead), where, ": missing ", quoted_name(kHead),
                    ": config.json has tie_word_embeddings false");
}

void check_shapes(const SafetensorsFile& file, const Names& names, const Shapes& wanted, const std::string& where) {
  std::vector<std::string> wrong;
  for (const auto& [name, shape] : wanted) {
    const std::vector<int64_t>& found = file.entries().at(names.at(name)).shape;
    if (found != shape) wrong.push_back(fmt::format("{} has shape {}, expected {}", quoted_name(name), found, shape));
  }
  TORCH_CHECK_VALUE(wrong.empty(), where, ": not the shapes of its config.json: ", listed(wrong));
}

/// A head of its own would be a second matrix to read for every token, and no GPT-2 has one.
void check_head(const SafetensorsFile& file, const torch::Tensor& embedding, const std::string& where) {
  if (!file.entries().contains(kHead)) return;
  const torch::Tensor head = file.load(kHead);
  const bool same_shape = head.sizes() == embedding.sizes();
  const bool equal = same_shape && head.to(torch::kFloat32).equal(embedding.to(torch::kFloat32));
  TORCH_CHECK_VALUE(equal, where, ": ", kHead, " differs from ", kEmbedding, ", and only a head that is tied to ",
                    kEmbedding, " is computed");
}

}  // namespace

std::map<std::string, std::vector<int64_t>> weight_shapes(const Gpt2Config& config) {
  for (const int64_t size :
       {config.layers, config.heads, config.embedding, config.inner, config.vocabulary, config.context}) {
    TORCH_CHECK_VALUE(size > 0, "a configuration has only positive sizes, got ", size);
  }
  const int64_t E = config.embedding;
  Shapes shapes = {{"wte.weight", {config.vocabulary, E}},
                   {"wpe.weight", {config.context, E}},
                   {"ln_f.weight", {E}},
                   {"ln_f.bias", {E}}};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("h.{}.", layer);
    for (const char* norm : {"ln_1", "ln_2"}) {
      shapes[block + norm + ".weight"] = {E};
      shapes[block + norm + ".bias"] = {E};
    }
    const auto add_linear = [&](const char* name, int64_t in, int64_t out) {
      shapes[block + name + ".weight"] = {in, out};
      shapes[block + name + ".bias"] = {out};
    };
    add_linear("attn.c_attn", E, 3 * E);  // queries, keys, values
    add_linear("attn.c_proj", E, E);
    add_linear("mlp.c_fc", E, config.inner);
    add_linear("mlp.c_proj", config.inner, E);
  }
  return shapes;
}

int64_t parameter_count(const Gpt2Config& config) {
  int64_t count = 0;
  for (const auto& [name, shape] : weight_shapes(config)) count += c10::multiply_integers(shape);
  return count;
}

bool is_conv1d(const std::string& name, const std::vector<int64_t>& shape) {
  return name.starts_with("h.") && shape.size() == 2;
}

void check_weight_dtype(torch::ScalarType dtype) {
  TORCH_CHECK_VALUE(dtype == torch::kFloat32 || dtype == torch::kFloat64 || dtype == torch::kBFloat16,
                    "weights can be float32, float64 or bfloat16, not ", dtype);
}

torch::Tensor conv1d_layout(const torch::Tensor& weight, torch::ScalarType dtype) {
  return torch::empty({weight.size(1), weight.size(0)}, dtype).copy_(weight.t()).t();
}

Checkpoint load_checkpoint(const std::filesystem::path& folder, torch::ScalarType dtype) {
  check_weight_dtype(dtype);
  std::error_code unreadable;  // is not a folder either
  TORCH_CHECK_VALUE(std::filesystem::is_directory(folder, unreadable), folder.string(),
                    ": not a folder; give one with config.json and model.safetensors");
  Checkpoint checkpoint{read_config(folder), {}};
  const std::filesystem::path path = folder / "model.safetensors";
  const std::string where = path.string();
  const SafetensorsFile file(path);
  const Names names = plain_names(file, where);
  const Shapes wanted = weight_shapes(checkpoint.config);
  check_names(names, wanted, checkpoint.config, where);
  check_shapes(file, names, wanted, where);

  for (const auto& [name, shape] : wanted) {
    const torch::Tensor stored = file.load(names.at(name));
    if (name == kEmbedding) check_head(file, stored, where);
    checkpoint.weights[name] = is_conv1d(name, shape) ? conv1d_layout(stored, dtype) : stored.to(dtype);
  }
  return checkpoint;
}

}  // namespace kvbook

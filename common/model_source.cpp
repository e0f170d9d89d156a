#include "common/model_source.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "build_info.h"

namespace kvbook {
namespace {

NamedModel open_folder(const std::string& name, const std::filesystem::path& folder, torch::ScalarType dtype) {
  NamedModel model{name, load_checkpoint(folder, dtype), nullptr};
  std::error_code unreadable;  // counts as there: the tokenizer says what is wrong
  const bool has_vocabulary = std::filesystem::exists(folder / "vocab.json", unreadable) || unreadable;
  const bool has_merges = std::filesystem::exists(folder / "merges.txt", unreadable) || unreadable;
  if (has_vocabulary != has_merges) {
    throw UsageError(fmt::format("{} has {} but no {}: a tokenizer needs both", folder.string(),
                                 has_vocabulary ? "vocab.json" : "merges.txt",
                                 has_vocabulary ? "merges.txt" : "vocab.json"));
  }
  if (has_vocabulary) model.tokenizer = std::make_shared<Tokenizer>(folder);
  return model;
}

std::string tale_opening() {
  const std::filesystem::path path = data_folder() / "tales" / "prompts.json";
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("cannot read {}: give a --prompt", path.string()));
  const nlohmann::json prompts = nlohmann::json::parse(file);
  for (const auto& prompt : prompts.at("prompts")) {
    if (prompt.at("name") == "default") return prompt.at("text");
  }
  throw UsageError(fmt::format("{} has no default prompt: give a --prompt", path.string()));
}

}  // namespace

std::filesystem::path data_folder() { return std::filesystem::path(kSourceFolder) / "data"; }

NamedModel open_model(const std::string& name, torch::ScalarType dtype) {
  if (name == "gpt2-random") return {name, random_checkpoint(gpt2_124m_config(), kRandomModelSeed, dtype), nullptr};
  if (name == "tales") return open_folder(name, data_folder() / "tales", dtype);
  if (name == "gpt2") {
    if (!std::filesystem::exists(data_folder() / "gpt2" / "model.safetensors")) {
      throw UsageError("the weights of gpt2 are not here yet: fetch them with `make gpt2`");
    }
    return open_folder(name, data_folder() / "gpt2", dtype);
  }
  std::error_code ignored;  // a name too long, a loop of links: no folder either
  if (!std::filesystem::is_directory(name, ignored)) {
    throw UsageError(fmt::format("--model is tales, gpt2-random, gpt2 or a folder, and there is no folder '{}'", name));
  }
  return open_folder(name, name, dtype);
}

std::vector<int64_t> encode_input(const NamedModel& model, const Input& input, const std::string& flag) {
  const bool is_text = std::holds_alternative<std::string>(input);
  std::vector<int64_t> ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    if (text->empty()) throw UsageError(fmt::format("{} is empty: give at least one token", flag));
    if (!model.tokenizer) {
      throw UsageError(
          fmt::format("the model '{}' has no tokenizer for the text of {}: use {}-ids 1,2,3", model.name, flag, flag));
    }
    ids = model.tokenizer->encode(*text);
  } else {
    ids = std::get<std::vector<int64_t>>(input);
  }
  for (const int64_t id : ids) {
    if (id < 0 || id >= model.checkpoint.config.vocabulary) {
      throw UsageError(fmt::format("{}{}: id {} is not in the vocabulary of '{}' (0 to {})", flag,
                                   is_text ? "" : "-ids", id, model.name, model.checkpoint.config.vocabulary - 1));
    }
  }
  return ids;
}

std::vector<int64_t> default_prompt(const NamedModel& model) {
  if (model.name == "gpt2-random") return kHelloIAm;
  if (!model.tokenizer) {
    throw UsageError(fmt::format("the model '{}' has no tokenizer: give --prompt-ids 1,2,3", model.name));
  }
  return encode_input(model, model.name == "gpt2" ? "Hello, I am" : tale_opening(), "--prompt");
}

}  // namespace kvbook

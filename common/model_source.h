// What --model names: a checkpoint, its tokenizer if it has one, and the prompt that is used when none is given.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/checkpoint.h"
#include "common/cli.h"
#include "common/tokenizer.h"

namespace kvbook {

struct NamedModel {
  std::string name;  // as typed
  Checkpoint checkpoint;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: ids only
};

/// The seed of gpt2-random's weights.
inline constexpr uint64_t kRandomModelSeed = 124;

/// "Hello, I am" in GPT-2's vocabulary: the prompt of gpt2-random, which has no tokenizer.
inline const std::vector<int64_t> kHelloIAm = {15496, 11, 314, 716};

/// `name` is tales, gpt2-random, gpt2 or a folder. @throws UsageError or c10::ValueError naming the fault and the
/// remedy.
NamedModel open_model(const std::string& name, torch::ScalarType dtype);

/// The folder of the repository's own data, data/.
std::filesystem::path data_folder();

/// The input as ids. `flag` is --prompt or --turn, for messages. @throws UsageError if text is given without a
/// tokenizer, there is nothing in it, or an id is outside the vocabulary.
std::vector<int64_t> encode_input(const NamedModel& model, const Input& input, const std::string& flag);

/// A tale's opening; for gpt2 and gpt2-random the ids of "Hello, I am". @throws UsageError for a model without a
/// tokenizer.
std::vector<int64_t> default_prompt(const NamedModel& model);

}  // namespace kvbook

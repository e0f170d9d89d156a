// A GPT-2 checkpoint's config.json, read with care: what this code does not compute is refused by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/model_shape.h"

namespace kvbook {

struct Gpt2Config {
  int64_t layers = 0;      // n_layer: L
  int64_t heads = 0;       // n_head: H
  int64_t embedding = 0;   // n_embd: E = H·D
  int64_t inner = 0;       // n_inner; null or missing means 4·E
  int64_t vocabulary = 0;  // vocab_size: V
  int64_t context = 0;     // n_positions, or n_ctx in old files
  double layer_norm_epsilon = 1e-5;
  bool tied_head = true;          // tie_word_embeddings; a head of its own must equal wte (see checkpoint.h)
  std::optional<int64_t> eos_id;  // eos_token_id: the end-of-text token

  int64_t head_size() const { return embedding / heads; }
  ModelShape shape() const { return {layers, heads, heads, head_size(), context, vocabulary}; }
};

/// Parses the text of a config.json. `where` names the file in messages.
/// Required: n_layer, n_head, n_embd, vocab_size, and n_positions or n_ctx (the same number if both are there).
/// Each size has an upper limit far above any GPT-2, so that no product of sizes, in bytes, overflows.
/// Keys that change nothing here, such as the dropouts, are ignored.
/// @throws c10::ValueError naming the key and the remedy: not JSON, a key that is missing or of the wrong type, a size
/// out of range, or something that this code does not compute (see config.cpp for the list).
Gpt2Config parse_config(const std::string& text, const std::string& where);

/// Reads FOLDER/config.json, of at most 1 MiB. @throws c10::ValueError as parse_config, or if it cannot be read.
Gpt2Config read_config(const std::filesystem::path& folder);

}  // namespace kvbook

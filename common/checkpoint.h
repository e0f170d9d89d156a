// A model as data: its configuration and its weights by name. Chapter 1's model and common/gpt2 are both made from one.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/config.h"

namespace kvbook {

/// Names as in the Hugging Face checkpoint, without the "transformer." prefix: "wte.weight", "h.0.attn.c_attn.weight".
/// No gradient is ever asked for.
///
/// Linear layers are Conv1D in the checkpoint: [in, out]. They keep that shape here but are laid out in memory as
/// [out, in]: weight.t() is contiguous, which is what at::linear reads fastest (in bfloat16 by far).
using Weights = std::map<std::string, torch::Tensor>;

struct Checkpoint {
  Gpt2Config config;
  Weights weights;
};

/// Every tensor that a GPT-2 of this configuration has, and its shape. The output head is wte and not in the list.
/// @throws c10::ValueError unless every size is positive.
std::map<std::string, std::vector<int64_t>> weight_shapes(const Gpt2Config& config);

/// Parameters in all: the sum over weight_shapes (GPT-2 124M: 124,439,808).
int64_t parameter_count(const Gpt2Config& config);

/// Reads FOLDER/config.json and FOLDER/model.safetensors and converts to `dtype` (float32, float64 or bfloat16).
/// Float32 and float64 hold every value of the file exactly; bfloat16 rounds to the nearest, ties to even.
/// Names may carry the "transformer." prefix. The mask buffers of old files, h.N.attn.bias and h.N.attn.masked_bias,
/// are ignored. An lm_head.weight is accepted if it equals wte.weight, which is used for the head.
/// Memory: the weights in `dtype`, and one tensor of the file at a time (two for a head of its own).
/// @throws c10::ValueError that names the file and the tensors at fault; every name and shape is checked before the
/// first weight is read.
Checkpoint load_checkpoint(const std::filesystem::path& folder, torch::ScalarType dtype);

/// A model of the given shape with seeded weights: the same bits in every run and on every CPU (see
/// random_checkpoint.cpp). On the 124M shape greedy decoding gives a varied sequence.
/// Time: 1 to 3 s of one core for 124M parameters. Memory: the weights in `dtype`, and one tensor more.
/// @throws c10::ValueError for a dtype that load_checkpoint refuses.
Checkpoint random_checkpoint(const Gpt2Config& config, uint64_t seed, torch::ScalarType dtype);

/// The shape of GPT-2 124M: 12 layers, 12 heads, E 768, V 50,257, context 1,024.
Gpt2Config gpt2_124m_config();

/// A matrix [in, out] as Weights holds it: converted to `dtype`, with out as the slow axis in memory. Always a copy.
torch::Tensor conv1d_layout(const torch::Tensor& weight, torch::ScalarType dtype);

/// @throws c10::ValueError unless `dtype` is float32, float64 or bfloat16.
void check_weight_dtype(torch::ScalarType dtype);

/// True for the weight of a linear layer (Conv1D): a matrix inside a block.
bool is_conv1d(const std::string& name, const std::vector<int64_t>& shape);

}  // namespace kvbook

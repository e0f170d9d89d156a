// How great keys and values become, channel by channel.
#pragma once

#include <torch/types.h>

namespace kvbook {

/// The greatest number, without its sign, that each channel had; undefined where it was not measured.
struct KeyValueRanges {
  torch::Tensor keys = {}, values = {};  // [L, H_kv, D]
};

}  // namespace kvbook

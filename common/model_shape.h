// The sizes that a cache needs to know of a model.
#pragma once

#include <cstdint>

namespace kvbook {

struct ModelShape {
  int64_t layers;      // L
  int64_t heads;       // H
  int64_t kv_heads;    // H_kv; equal to H in GPT-2
  int64_t head_size;   // D
  int64_t context;     // positions the model has
  int64_t vocabulary;  // V

  bool operator==(const ModelShape&) const = default;
};

}  // namespace kvbook

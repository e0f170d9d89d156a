// A model that counts its position itself. The seam of this book leaves a cache no place for that fault: begin()
// returns the positions, and length() moves in commit() only.
#pragma once

#include "common/gpt2.h"

namespace kvbook {

/// As Gpt2Impl, but for the positions: they come from `position_`, which subclasses move.
class OwnPositionGpt2 : public Gpt2Impl {
 public:
  using Gpt2Impl::Gpt2Impl;
  torch::Tensor hidden(const Step& step, KVCache& cache) override;

 protected:
  virtual void after_layer(int64_t /*T*/) {}
  virtual void after_forward(int64_t /*T*/) {}

  int64_t position_ = 0;  // of the next token; 0 where the cache is empty
};

}  // namespace kvbook

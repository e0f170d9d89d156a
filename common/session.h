// A conversation with one model: turn after turn, everything said so far remembered, by a cache or otherwise.
#pragma once

#include "common/generation.h"

namespace kvbook {

class Session {
 public:
  virtual ~Session() = default;

  /// Appends input, int64 [B, T], after all earlier inputs and answers, and generates. Gives the tokens of a fresh
  /// session on everything so far joined.
  /// @throws c10::IndexError if everything so far passes the context, c10::ValueError for an empty input: the
  /// session is as before then. After another exception, discard it.
  virtual Generation generate(const torch::Tensor& input, const GenerateOptions& options) = 0;

  virtual int64_t bytes() const = 0;  ///< memory held for keys and values
};

}  // namespace kvbook

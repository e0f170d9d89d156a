// What a cache did in one forward: the record from which the traces in the terminal, in files and in pictures are made.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace kvbook {

/// One committed forward, its first row.
struct TracedForward {
  int64_t first_position = 0;        // P: of the first token fed
  std::vector<int64_t> ids = {};     // the T tokens fed
  std::vector<int64_t> before = {};  // KVCache::slots() when the forward began
  std::vector<int64_t> after = {};   // and when it had been committed
  torch::Tensor visible = {};        // bool [T, S]: which keys each token saw, also where the cache gave no mask
  int64_t bytes = 0;                 // of keys and values held afterwards

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }

  /// The position of the key in column 0 of `visible`: the S columns end with the tokens fed.
  int64_t first_key() const { return first_position + tokens() - visible.size(1); }
};

using ForwardListener = std::function<void(const TracedForward&)>;

/// A forward without a cache: all of `ids` fed, every token seeing those up to itself, nothing held before or after.
TracedForward uncached_forward(const std::vector<int64_t>& ids);

}  // namespace kvbook

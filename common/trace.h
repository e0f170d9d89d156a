// What a cache did in one forward: the record from which the traces in the terminal, in files and in pictures are made.
#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>
#include <vector>

namespace kvbook {

/// One committed forward: of a cache whose rows advance together the first row, else each row that it was about. Where
/// layers keep different positions there is one for each group of layers that keep the same.
struct TracedForward {
  std::optional<int64_t> row = {};   // of a cache with several rows of their own
  std::vector<int64_t> layers = {};  // where layers keep different positions: those that this is about
  int64_t first_position = 0;        // P: of the first token fed
  std::vector<int64_t> ids = {};     // the T tokens fed
  std::vector<int64_t> keys = {};    // KVCache::columns() while it was open: the position of each of the S keys
  torch::Tensor visible = {};        // bool [T, S]: which keys each token saw, also where the cache gave no mask
  std::vector<int64_t> after = {};   // KVCache::slots() when it had been committed
  int64_t bytes = 0;                 // of keys and values held then

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

using ForwardListener = std::function<void(const TracedForward&)>;

/// A forward without a cache: all of `ids` fed, every token seeing those up to itself, nothing held before or after.
TracedForward uncached_forward(const std::vector<int64_t>& ids);

}  // namespace kvbook

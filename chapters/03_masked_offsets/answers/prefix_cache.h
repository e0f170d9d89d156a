// Exercise 3.2: the first tokens see each other in both directions, all others look back.
#pragma once

#include "common/forwarding_cache.h"

namespace kvbook {

// ANCHOR: contract
/// As causal_mask, and all of the first `prefix` positions are visible to each other:
/// visible[i][j] is j <= P + i or j < prefix. bool [T, P + T].
torch::Tensor prefix_mask(int64_t P, int64_t T, int64_t prefix, torch::Device device);

/// Puts that mask in the place of the one that another cache returns. `inner` must return all P + T keys in order.
class PrefixCache final : public ForwardingCache {
 public:
  PrefixCache(KVCache& inner, int64_t prefix) : ForwardingCache(inner), prefix_(prefix) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

 protected:
  /// @throws c10::ValueError for a forward that ends inside the prefix, and so would split it.
  void on_begin(const Step& step) override;
  // ANCHOR_END: contract

 private:
  int64_t prefix_;
  torch::Tensor visible_;  // of the open forward
};

}  // namespace kvbook

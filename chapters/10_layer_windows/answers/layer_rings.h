// Exercises 10.2 and 10.3: one ring for each of the different windows, as in the chapter, for caches that differ in
// their buffers only.
#pragma once

#include <vector>

#include "chapters/06_ring_buffer/ring.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// The positions of all layers. A layer's window is that of its ring; one of the context makes it a full layer. Holds
/// no keys. The calls are Ring's, each made on all rings.
class LayerRings {
 public:
  /// `windows`: a layer each; 0, or at least the context: a full layer. Empty: all are full. `spare`: k, of the
  /// windowed layers. @throws c10::ValueError unless no window is negative, there is one for each layer, and k is at
  /// least 0.
  LayerRings(const ModelShape& shape, const std::vector<int64_t>& windows, int64_t spare);

  const Ring& of(int64_t layer) const { return rings_[which_[layer]]; }
  bool is_full(int64_t layer) const { return of(layer).window() == context_; }
  int64_t same_as(int64_t layer) const;  ///< the first layer that lies in the same ring

  /// @throws c10::IndexError if a full layer would go past the context.
  void open(int64_t P, int64_t T, torch::Device device);
  void commit();
  void abandon();
  void truncate(int64_t length);
  void clear();
  int64_t can_give_back(int64_t P) const;  ///< what every layer can

  // ANCHOR_END: contract

 private:
  int64_t context_;
  std::vector<Ring> rings_;    // one for each of the different windows
  std::vector<size_t> which_;  // a layer each
};

}  // namespace kvbook

// The slots of a ring: which position lies where, what a query sees, and how a layer's keys and values get there.
#pragma once

#include <torch/types.h>

#include <vector>

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: mask
/// `columns`: the position of the key in each of S columns, in any order, kEmptySlot where there is none. Row i is the
/// query at position P + i. visible[i][j] is P + i - W < columns[j] <= P + i. bool [T, S].
torch::Tensor ring_mask(const std::vector<int64_t>& columns, int64_t P, int64_t T, int64_t W, torch::Device device);
// ANCHOR_END: mask

/// One layer's keys and values in R slots, [B, H, R, D], and until commit a chunk that does not fit, [B, H, S, D].
struct RingLayer {
  torch::Tensor keys, values;
  torch::Tensor staged_keys = {}, staged_values = {};

  void unstage() {
    staged_keys.reset();
    staged_values.reset();
  }
};

// ANCHOR: contract
/// R = W + k slots, of which a query sees the last W positions. Position p lies in slot p mod R until p + R takes its
/// place. Knows positions and holds no keys, so that many layers can lie in it alike. The k slots to spare hold tokens
/// that no query sees any more; they can be seen again after truncate().
class Ring {
 public:
  /// @throws c10::ValueError unless the window is positive and `spare`, k, is at least 0.
  explicit Ring(int64_t window, int64_t spare = 0);

  int64_t window() const { return window_; }  ///< W
  int64_t size() const { return slots_; }     ///< R

  /// Decides where the tokens at positions P to P + T - 1 will lie, and who sees whom. They go into their slots at once
  /// where nothing is lost by it, else beside them until commit: they are staged.
  void open(int64_t P, int64_t T, torch::Device device);
  /// One layer's part, key and value [B, H, T, D]. Returns keys, values [B, H, S, D], as they lie in the slots, a
  /// staged chunk behind them; visible bool [T, S], undefined where one query sees all S keys. S = min(P + T, R), for a
  /// staged chunk min(P, R) + T.
  KeyValues update(RingLayer& layer, const torch::Tensor& key, const torch::Tensor& value) const;
  void store_staged(RingLayer& layer) const;  ///< one layer's part of commit
  void commit();                              ///< the new tokens lie in their slots now; after every layer's part
  void abandon();                             ///< what was written has no position: there is nothing to undo in slots

  void truncate(int64_t length);  ///< what lies at `length` or later counts for nothing
  void clear();                   ///< all slots are empty
  /// Any number of P while nothing has been overwritten; then k + 1, less one for each slot that is empty since its
  /// token was taken back or an abandoned forward wrote over it.
  int64_t can_give_back(int64_t P) const;

  /// R: the committed position in each slot, kEmptySlot where there is none.
  const std::vector<int64_t>& positions() const { return positions_; }
  /// S, of the open forward: the position in each column.
  const std::vector<int64_t>& columns() const { return columns_; }
  // ANCHOR_END: contract

 private:
  int64_t slot_of(int64_t position) const { return position % slots_; }
  void store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const;

  int64_t window_, slots_;          // W, R
  std::vector<int64_t> positions_;  // R

  // Of the open forward:
  int64_t first_ = 0, tokens_ = 0;  // P, T
  bool stages_ = false;
  std::vector<int64_t> columns_;
  torch::Tensor visible_;
};

}  // namespace kvbook

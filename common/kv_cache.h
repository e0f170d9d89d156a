// The seam of this book: one GPT-2, exchangeable caches. One forward is a transaction on the cache.
#pragma once

#include <torch/types.h>

#include "common/model_shape.h"

namespace kvbook {

// ANCHOR: step
/// The input of one forward.
struct Step {
  torch::Tensor ids;  // int64 [B, T]
};

/// What one layer's attention may look at.
struct KeyValues {
  torch::Tensor keys;     // [B, H_kv, S, D]
  torch::Tensor values;   // [B, H_kv, S, D]
  torch::Tensor visible;  // bool, [T, S] or [B, 1, T, S]; undefined when every query sees every key
};
// ANCHOR_END: step

inline constexpr int64_t kEmptySlot = -1;

/// Raised when a call of the seam keeps its signature and changes its meaning.
inline constexpr int kSeamVersion = 1;

// ANCHOR: seam
/// Keys and values of the tokens seen so far, for all layers. The model calls begin once, update once a layer, commit
/// once; whatever happens in between, length() moves in commit only. Not thread-safe: one cache, one thread.
///
/// dtype, device and batch size come from the first key; a later mismatch is refused until reset().
class KVCache {
 public:
  /// @throws c10::ValueError unless every size is positive.
  explicit KVCache(const ModelShape& shape);
  virtual ~KVCache() = default;
  KVCache(const KVCache&) = delete;  // a copy would cost bytes() and share buffers by surprise
  KVCache& operator=(const KVCache&) = delete;

  /// Opens a forward; abandons one left open. Returns the new tokens' positions, int64 [T].
  /// Whatever the ids decide is refused here, before anything is written.
  /// @throws c10::ValueError if ids is not int64 [B, T], B and T at least 1, or B differs from the rows held.
  /// @throws c10::IndexError if the cache has no room for T more tokens.
  torch::Tensor begin(const Step& step);

  /// Remembers this step's keys and values of one layer, [B, H_kv, T, D], and returns what the step may attend to.
  /// The tensors returned are valid until commit or abandon. Never destroys a committed key that a query at the
  /// committed length could still see, so that a forward that fails can be tried again.
  /// @throws c10::ValueError on another shape, dtype or device than this forward's or the cache's, or a layer out of
  /// range or updated twice: the forward stays open, to be abandoned.
  virtual KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) = 0;

  /// Closes the forward: the new tokens now count. Called by the model, once, never by a layer.
  void commit();

  /// Gives the open forward up; the cache is as it was before begin. Without one it does nothing.
  void abandon();

  /// Forgets everything and releases the memory; the next begin starts at position 0 with any batch, dtype and device.
  virtual void reset();

  /// Positions committed in one row (not keys held: a window holds fewer).
  int64_t length(int64_t row = 0) const;

  /// Memory held for keys and values, in bytes.
  virtual int64_t bytes() const = 0;

  /// The committed position whose key lies in each slot of a row, kEmptySlot where there is none. For looking at a
  /// cache: the model never asks. Here: one slot a token, in order, as in a cache that grows.
  virtual std::vector<int64_t> slots(int64_t row = 0) const;
  // ANCHOR_END: seam

  const ModelShape& shape() const { return shape_; }

 protected:
  // ANCHOR: hooks
  virtual void on_begin(const Step&) {}  ///< room checks
  virtual void on_commit() {}            ///< eviction; length() still is the old one
  virtual void on_abandon() {}

  /// The first line of every update: checks the arguments, notes dtype, device and batch, ticks the layer off.
  void check_update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value);

  /// True once the first key of this sequence has been seen: rows() and options() are known then.
  bool knows_layout() const { return rows_ > 0; }
  int64_t rows() const { return rows_; }
  torch::TensorOptions options() const { return options_; }  ///< dtype and device of the keys
  int64_t new_tokens() const { return step_tokens_; }        ///< T of the open forward

  // ANCHOR_END: hooks

 private:
  void forget_layout();

  ModelShape shape_;
  int64_t length_ = 0;
  int64_t rows_ = 0;  // 0: not known yet
  torch::TensorOptions options_;
  bool open_ = false;
  int64_t step_rows_ = 0;
  int64_t step_tokens_ = 0;
  std::vector<bool> updated_;  // per layer, in the open forward
};

/// Bytes of keys and values: 2·L·B·H_kv·slots·D·bytes of the dtype (2: keys and values).
int64_t key_value_bytes(const ModelShape& shape, int64_t rows, int64_t slots, int64_t bytes_per_element);

}  // namespace kvbook

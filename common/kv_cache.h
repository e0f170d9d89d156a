// The seam of this book: one GPT-2, exchangeable caches. One forward is a transaction on the cache.
#pragma once

#include <torch/types.h>

#include "common/model_shape.h"

namespace kvbook {

// ANCHOR: step
/// The input of one forward. Chapter 7 fills in the last three: rows of unequal length.
struct Step {
  torch::Tensor ids;          // int64 [B, T]
  torch::Tensor counts = {};  // int64 [B]: how many of a row's T ids are tokens, the rest is padding; undefined: all
  torch::Tensor rows = {};    // int64 [B]: which rows of the cache these are; undefined: rows 0 to B - 1
  bool pad_left = false;      // the padding stands before the tokens, not behind them
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
  /// Rows advance together, as many as the first step has. @throws c10::ValueError unless every size is positive.
  explicit KVCache(const ModelShape& shape);
  virtual ~KVCache() = default;
  KVCache(const KVCache&) = delete;  // a copy would cost bytes() and share buffers by surprise
  KVCache& operator=(const KVCache&) = delete;

  /// Opens a forward; abandons one left open. Returns the new tokens' positions: int64 [T] where all rows of the step
  /// stand at the same place and have T tokens, else [B, T], with 0 for padding.
  /// Whatever the step decides is refused here, before anything is written.
  /// @throws c10::ValueError if ids is not int64 [B, T], B and T at least 1, or B differs from the rows held; if counts
  /// or rows are given to a cache whose rows advance together, have another shape, or name a row that is not there, a
  /// row twice, a count that is not between 0 and T, or no token at all.
  /// @throws c10::IndexError if the cache has no room for T more tokens.
  torch::Tensor begin(const Step& step);

  /// Remembers this step's keys and values of one layer, [B, H_kv, T, D], and returns what the step may attend to.
  /// The tensors returned are valid until the next update, commit or abandon. Never destroys a committed key that a
  /// query at the committed length could still see, so that a forward that fails can be tried again.
  /// @throws c10::ValueError on another shape, dtype or device than this forward's or the cache's, or a layer out of
  /// range or updated twice: the forward stays open, to be abandoned.
  virtual KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) = 0;

  /// Closes the forward: the new tokens now count. Called by the model, once, never by a layer.
  void commit();

  /// Gives the open forward up; the cache is as it was before begin. Without one it does nothing.
  void abandon();

  /// Forgets everything and releases the memory; the next begin starts at position 0 with any batch, dtype and device.
  virtual void reset();

  /// True when nothing is held that asks for this dtype, device and batch size: the next forward may bring others.
  /// Here: when no row has a token.
  virtual bool binds_nothing() const { return is_empty(); }

  /// Takes the last tokens of every row back: the first `length` positions stay. Abandons an open forward; to take all
  /// back is reset().
  /// @throws c10::IndexError if length is not between 0 and that of every row, or if what the next query would see is
  /// no longer held (see can_give_back): nothing has changed then.
  void truncate(int64_t length);

  /// The same for one row, where rows have lengths of their own. truncate(row, 0) makes it free for another sequence; a
  /// cache with fixed buffers keeps them until reset().
  /// @throws c10::ValueError where rows advance together; c10::IndexError as above.
  void truncate(int64_t row, int64_t length);

  /// An empty row takes over what other sequences with the same beginning have left in the cache: at most all tokens of
  /// `prompt` but the last, whose logits somebody has to compute. Returns how many; the next step feeds the others.
  /// Abandons an open forward. Here: none (chapter 8 can).
  /// @throws c10::IndexError if the row is not there or not empty, c10::ValueError if the prompt is empty.
  int64_t adopt_prefix(int64_t row, const std::vector<int64_t>& prompt);

  /// How many of the last tokens truncate() can take back: as many as leave every key held that the next query sees.
  /// Here: all, as long as layer_slots() names every position in every layer, else none. A cache that can do better
  /// says so.
  virtual int64_t can_give_back(int64_t row = 0) const;

  /// Positions committed in one row (not keys held: a window holds fewer).
  int64_t length(int64_t row = 0) const;

  /// The length of the longest row of this step once it is committed. @throws as begin() for a step that it refuses.
  int64_t length_after(const Step& step) const;

  /// True where every row has a length of its own, and a step may be about some of them (chapter 7 and later).
  bool ragged() const { return ragged_; }

  /// Memory held for keys and values, in bytes.
  virtual int64_t bytes() const = 0;

  /// The committed position whose key lies in each slot of a row, kEmptySlot where there is none; a key that lies in
  /// two slots is named once. For looking at a cache: the model never asks. Here: one slot a token, in order, as in a
  /// cache that grows.
  virtual std::vector<int64_t> slots(int64_t row = 0) const;

  /// In an open forward: the position of each key that update() returns for a row, a column each, kEmptySlot for one
  /// that is hidden from every query since nothing counts there. For looking, as slots(). Here: those that slots()
  /// names, then the new ones.
  virtual std::vector<int64_t> columns(int64_t row = 0) const;

  /// Layers may keep different positions (chapter 10): the first layer that always keeps the same ones as this layer.
  /// Here: 0, since all do. @throws c10::IndexError for a layer that is not there, as do the next two.
  virtual int64_t same_slots_as(int64_t layer) const;

  /// As slots(), which speaks of layer 0, of any layer. For looking.
  virtual std::vector<int64_t> layer_slots(int64_t layer, int64_t row = 0) const;

  /// As columns(), which speaks of layer 0, of any layer. For looking.
  virtual std::vector<int64_t> layer_columns(int64_t layer, int64_t row = 0) const;
  // ANCHOR_END: seam

  const ModelShape& shape() const { return shape_; }

 protected:
  /// For a cache that passes everything on to `other`: rows as there.
  struct RowsAsIn {
    const KVCache& other;
  };
  explicit KVCache(RowsAsIn inner);

  // ANCHOR: hooks
  virtual void on_begin(const Step&) {}  ///< room checks
  virtual void on_commit() {}            ///< eviction; length() still is the old one
  virtual void on_abandon() {}
  virtual void on_truncate() { on_abandon(); }  ///< length() is the new one already: what lies past it is gone
  virtual int64_t on_adopt(int64_t, const std::vector<int64_t>&) { return 0; }  ///< how many tokens the row holds now

  void check_layer(int64_t layer) const;  ///< @throws c10::IndexError unless the model has it

  /// The first line of every update: checks the arguments, notes dtype, device and batch, ticks the layer off.
  void check_update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value);

  /// True once the first key of this sequence has been seen: rows() and options() are known then.
  bool knows_layout() const { return knows_layout_; }
  int64_t rows() const { return static_cast<int64_t>(lengths_.size()); }
  torch::TensorOptions options() const { return options_; }  ///< dtype and device of the keys
  int64_t new_tokens() const { return step_tokens_; }        ///< T of the open forward

  // ANCHOR_END: hooks

  // ANCHOR: ragged
  /// For caches whose rows have lengths of their own: `rows` of them, or 0 for as many as the first step has.
  KVCache(const ModelShape& shape, int64_t rows);

  /// Of a step: which row of the cache its row b is, how many tokens it gets, and how many it holds. From on_begin on.
  int64_t step_row(int64_t b) const { return step_.rows[b]; }
  int64_t step_count(int64_t b) const { return step_.counts[b]; }
  int64_t held(int64_t b) const { return lengths_.empty() ? 0 : lengths_[step_row(b)]; }
  int64_t step_size() const { return static_cast<int64_t>(step_.rows.size()); }  ///< B

  bool in_step(int64_t row) const;         ///< a forward is open, and about this row of the cache
  bool is_empty() const;                   ///< no row has a committed token
  void hold(int64_t row, int64_t length);  ///< a row that is there holds so many tokens, which another one was fed

  // ANCHOR_END: ragged

 private:
  struct StepRows {
    std::vector<int64_t> rows, counts;  // B each
  };
  StepRows rows_of(const Step& step) const;
  torch::Tensor positions(const Step& step) const;
  void forget_layout();
  void check_truncate(int64_t row, int64_t length) const;

  ModelShape shape_;
  bool ragged_ = false;
  int64_t fixed_rows_ = 0;        // those that reset() leaves; 0: the first step says how many
  std::vector<int64_t> lengths_;  // a row each; none before the first step
  bool knows_layout_ = false;
  torch::TensorOptions options_;

  bool open_ = false;
  StepRows step_;
  int64_t step_tokens_ = 0;    // T
  std::vector<bool> updated_;  // a layer each
};

/// Bytes of keys and values: 2·L·B·H_kv·slots·D·bytes of the dtype (2: keys and values).
int64_t key_value_bytes(const ModelShape& shape, int64_t rows, int64_t slots, int64_t bytes_per_element);

}  // namespace kvbook

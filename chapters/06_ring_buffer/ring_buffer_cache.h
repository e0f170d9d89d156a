// Chapter 6: the window without shifting; position p lies in slot p mod R.
#pragma once

#include "chapters/06_ring_buffer/ring.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// The last R = W + k tokens in one [L, B, H, R, D] buffer each for keys and values, in a ring: see ring.h.
/// Memory: 2·L·B·H·R·D·sizeof(dtype), at the first update. A chunk of two or more tokens that goes over the free slots
///         is staged until commit: 2·L·B·H·(min(P, R) + T)·D·sizeof(dtype) more.
/// Time:   a decode step copies its own token, whatever W is. A staged chunk copies what is held, itself, and its last
///         min(T, R) tokens once more.
class RingBufferCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive and `spare`, k, is at least 0. A window
  /// above the context is the context.
  RingBufferCache(const ModelShape& shape, int64_t window, int64_t spare = 0);

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;  ///< as Ring::update
  void reset() override;
  int64_t can_give_back(int64_t row = 0) const override;  ///< as Ring::can_give_back
  int64_t bytes() const override;
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< R of them once the buffers are made
  std::vector<int64_t> columns(int64_t row = 0) const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< stores a staged chunk
  void on_abandon() override;
  void on_truncate() override;
  // ANCHOR_END: contract

 private:
  void allocate();
  void release();

  Ring ring_;
  torch::Tensor keys_, values_;    // [L, B, H, R, D], undefined before the first update
  std::vector<RingLayer> layers_;  // views of them
};

}  // namespace kvbook

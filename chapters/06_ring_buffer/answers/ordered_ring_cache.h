// Exercise 6.3: a ring in which the window always lies in one run, oldest first.
#pragma once

#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Every token twice: position p in slots p mod W and p mod W + W of 2W. Any W tokens in a row then lie side by side in
/// one run that begins in the first half, so that attention is given what chapter 5 gives it.
/// Memory: 2·L·B·H·2W·D·sizeof(dtype), at the first update. A chunk that does not fit the free slots is staged until
///         commit: 2·L·B·H·(min(P, W - 1) + T)·D·sizeof(dtype) more.
/// Time:   update() copies T tokens twice. A staged chunk copies what its first query sees, itself, and its last
///         min(T, W) tokens twice more.
class OrderedRingCache final : public KVCache {
 public:
  /// @throws c10::ValueError unless every size and the window are positive. A window above the context is the context.
  OrderedRingCache(const ModelShape& shape, int64_t window);

  /// keys, values [B, H, h + T, D] with h = min(P, W - 1), oldest first; visible bool [T, h + T], undefined when
  /// T == 1.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  /// Any number while nothing has been overwritten; then 1, and 0 where a token was taken back or a forward of one
  /// token was abandoned, until the next commit.
  int64_t can_give_back(int64_t row = 0) const override;
  int64_t bytes() const override;
  /// 2W of them once the buffers are made; a token is named once, in one run with the others.
  std::vector<int64_t> slots(int64_t row = 0) const override;
  std::vector<int64_t> columns(int64_t row = 0) const override;

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;  ///< stores a staged chunk
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  int64_t kept() const { return std::min(length(), window_ - 1); }  // h
  void store(const torch::Tensor& slots, const torch::Tensor& chunk, int64_t first) const;
  void allocate();
  void close();
  void release();

  int64_t window_;               // W
  int64_t oldest_ = 0;           // positions oldest_ to length() - 1 lie in their slots; those before are gone
  torch::Tensor keys_, values_;  // [L, B, H, 2W, D], undefined before the first update

  // Of the open forward:
  bool stages_ = false;
  std::vector<int64_t> columns_;
  torch::Tensor visible_;
  std::vector<torch::Tensor> staged_keys_, staged_values_;  // a layer each, [B, H, h + T, D]
};

}  // namespace kvbook

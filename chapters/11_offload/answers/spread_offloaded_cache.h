// Exercise 11.1: layers that leave share one buffer and are kept apart by layers that stay.
#pragma once

#include <memory>
#include <string>

#include "chapters/11_offload/spill_file.h"
#include "chapters/11_offload/transfer_queue.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// N of the L layers have room in memory, in one [N, C, 2, B, H, D] buffer. If N < L, N - 1 layers stay there, and the
/// M = L - N + 1 others, spread evenly over the model, lie in a file and come into the last buffer one after the other.
/// The first is fetched at commit, each other one when a layer that stays asks behind the one before it; where two of
/// them are neighbours, the second is fetched when it asks itself.
/// Memory: N·2·B·H·C·D·sizeof(dtype), at the first update; on the disk M / N of it.
/// Time:   update() copies T tokens. In another thread a forward reads the P old tokens of M layers and writes the T
///         new ones; it waits where that thread is not done.
class SpreadOffloadedCache final : public KVCache {
 public:
  /// As OffloadedCache.
  SpreadOffloadedCache(const ModelShape& shape, int64_t capacity, int64_t resident_layers, std::string folder = "");
  ~SpreadOffloadedCache() override;

  /// As OffloadedCache. The views of a layer that leaves are valid until the next layer's update, not until commit.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;                              ///< in memory
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< C of them once the buffers are made

  bool leaves(int64_t layer) const;                                             ///< does not stay in memory
  int64_t bytes_read() const { return bytes_read_; }                            ///< asked of the other thread
  const std::vector<int64_t>& fetched_ahead() const { return fetched_ahead_; }  ///< layers, in the last forward

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError if P + T > C
  void on_commit() override;  ///< the new tokens are in the file then, and the first layer that leaves is on its way
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  int64_t leaving_from(int64_t layer) const;  // the first at `layer` or behind it; L: none
  torch::Tensor buffer_of(int64_t layer) const;
  int64_t offset_of(int64_t layer, int64_t position) const;
  void allocate();
  void release();
  void fetch(int64_t layer, int64_t tokens);
  void store_new_tokens(int64_t layer);
  void wait();

  int64_t capacity_, in_memory_, leaving_;  // C, N, M
  std::string folder_;
  std::vector<int64_t> place_;       // a layer each: its buffer, if it stays, else its place in the file
  torch::Tensor buffers_;            // [N, C, 2, B, H, D], undefined before the first update
  int64_t shared_;                   // the layer whose tokens lie in the last buffer, or are on their way; kNobody
  std::unique_ptr<SpillFile> file_;  // of the layers that leave
  torch::Tensor visible_;            // of the open forward
  std::vector<int64_t> fetched_ahead_;
  int64_t bytes_read_ = 0;
  TransferQueue queue_;  // last, so that its thread ends before what it moves
};

}  // namespace kvbook

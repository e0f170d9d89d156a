// Chapter 11: keys and values of most layers lie in a file, and are back before their layer runs.
#pragma once

#include <memory>
#include <string>

#include "chapters/11_offload/spill_file.h"
#include "chapters/11_offload/transfer_queue.h"
#include "common/kv_cache.h"

namespace kvbook {

// ANCHOR: contract
/// N of the L layers have room in memory, in one [N, C, 2, B, H, D] buffer: a token's keys and values side by side, so
/// that a layer's past is one run of bytes. If N < L, the first N - 2 layers stay there for good; the others lie in a
/// file and come into the last two buffers in turn, each while the layer before it computes, and the first of
/// them at commit. With N = 1 only that one is fetched ahead.
///
/// Memory: N·2·B·H·C·D·sizeof(dtype), at the first update; 2·B·H·C·D·sizeof(dtype) on the disk for each layer that does
/// not stay.
///
/// Time: update() copies T tokens. In another thread a forward reads the P old tokens of every layer that shares a
/// buffer, and writes the T new ones of every layer that does not stay; it waits where that thread is not done.
class OffloadedCache final : public KVCache {
 public:
  /// `resident_layers`: N, more than L means L. `folder`: where the file is made; empty: the system's for temporary
  /// files.
  /// @throws c10::ValueError unless every size, the capacity and N are positive; c10::Error if no thread can be
  /// started.
  OffloadedCache(const ModelShape& shape, int64_t capacity, int64_t resident_layers, std::string folder = "");
  ~OffloadedCache() override;

  /// Views of a buffer, which the next update may give to another layer: keys, values [B, H, P + T, D], of strides that
  /// follow its order; visible bool [T, P + T], undefined when T == 1.
  /// @throws c10::ValueError, too, unless the key lies in the processor's memory; c10::Error if the file cannot be
  /// made, or if something could not be written or read back, here or in the other thread since. What lies in the file
  /// may be lost then: what a retry cannot read, reset() and the same tokens once more bring back.
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;
  void reset() override;
  int64_t bytes() const override;                              ///< in memory
  std::vector<int64_t> slots(int64_t row = 0) const override;  ///< C of them once the buffers are made

  /// What the other thread was asked to move since this cache was made, and how long that was waited for.
  struct Transfers {
    int64_t bytes_read = 0, bytes_written = 0;
    double seconds_waited = 0;
  };
  const Transfers& transfers() const { return transfers_; }
  int64_t resident_layers() const { return buffers_in_all_; }  ///< N
  int64_t file_bytes() const;                                  ///< once the buffers are made
  int64_t buffer_of(int64_t layer) const;                      ///< in which this layer's attention looks

 protected:
  void on_begin(const Step& step) override;  ///< @throws c10::IndexError if P + T > C; makes the step's mask
  void on_commit() override;                 ///< the new tokens are in the file then, and layer 0 is on its way
  void on_abandon() override;
  // ANCHOR_END: contract

 private:
  bool stays(int64_t layer) const { return layer < staying_; }
  int64_t offset_of(int64_t layer, int64_t position) const;
  void allocate();
  void release();
  void fetch(int64_t layer, int64_t tokens);
  void store_new_tokens(int64_t layer);
  void wait(double since);
  void check_not_failed() const;

  int64_t capacity_;        // C
  int64_t buffers_in_all_;  // N
  int64_t staying_;         // layers [0, staying_) never leave
  std::string folder_;
  torch::Tensor visible_;  // of the open forward

  torch::Tensor buffers_;            // [N, C, 2, B, H, D], undefined before the first update
  std::vector<int64_t> in_buffer_;   // N: the layer whose committed tokens lie there, or are on their way; kNoLayer
  std::unique_ptr<SpillFile> file_;  // of the layers that do not stay
  Transfers transfers_;
  bool failed_ = false;  // something of the open forward could not be moved
  TransferQueue queue_;  // last, so that its thread ends before what it moves
};

}  // namespace kvbook

// A ring into which a chunk goes as a single token does: in its slots at once.
#include "chapters/06_ring_buffer/ring_buffer_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

/// W slots, nothing staged.
class WritesAChunkAtOnce final : public KVCache {
 public:
  WritesAChunkAtOnce(const ModelShape& shape, int64_t window)
      : KVCache(shape), slots_(std::min(window, shape.context)) {}

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    if (!keys_.defined()) allocate();
    const int64_t P = length(), T = new_tokens(), S = std::min(P + T, slots_);
    for (int64_t i = 0; i < T; ++i) {  // wrong: token i may overwrite a key that token 0 still has to see
      const int64_t slot = (P + i) % slots_;
      keys_[layer].select(kSeqAxis, slot).copy_(key.select(kSeqAxis, i));
      values_[layer].select(kSeqAxis, slot).copy_(value.select(kSeqAxis, i));
    }
    return {keys_[layer].narrow(kSeqAxis, 0, S), values_[layer].narrow(kSeqAxis, 0, S), visible_};
  }
  // ANCHOR_END: fault

  void reset() override {
    KVCache::reset();
    keys_.reset();
    values_.reset();
  }
  int64_t bytes() const override { return keys_.defined() ? keys_.nbytes() + values_.nbytes() : 0; }

 protected:
  void on_begin(const Step& step) override {
    const int64_t P = length(), T = step.ids.size(1);
    std::vector<int64_t> columns(std::min(P + T, slots_));
    for (int64_t position = std::max<int64_t>(0, P + T - slots_); position < P + T; ++position) {
      columns[position % slots_] = position;
    }
    visible_ = ring_mask(columns, P, T, slots_, step.ids.device());
  }
  void on_commit() override { visible_.reset(); }
  void on_abandon() override {
    if (length() == 0) reset();
  }

 private:
  void allocate() {
    keys_ = torch::empty({shape().layers, rows(), shape().kv_heads, slots_, shape().head_size}, options());
    values_ = torch::empty_like(keys_);
  }

  int64_t slots_;
  torch::Tensor keys_, values_, visible_;
};

}  // namespace

Failure writes_a_chunk_at_once() {
  return {.chapter = broken("06_ring_buffer", "writes_a_chunk_at_once", "writes a chunk into its slots at once",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<WritesAChunkAtOnce>(shape, options.window);
                            }),
          .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
          .symptom = "right token by token, wrong for a chunk that goes over what is free",
          .cure = "a chunk attends beside the ring and is stored in on_commit: chapter 6",
          .scene = {.new_tokens = 60, .chunk = 16, .window = 12}};
}

}  // namespace kvbook

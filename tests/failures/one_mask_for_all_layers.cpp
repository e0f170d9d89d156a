// Windows a layer, and a mask that is made once a forward: for the first of them.
#include "chapters/10_layer_windows/layer_windows_cache.h"
#include "common/axes.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct OwnedLayerWindows {
  LayerWindowsCache layers;
};

class OneMaskForAllLayers final : private OwnedLayerWindows, public ForwardingCache {
 public:
  OneMaskForAllLayers(const ModelShape& shape, const std::vector<int64_t>& windows)
      : OwnedLayerWindows{LayerWindowsCache(shape, windows)}, ForwardingCache(layers) {}

  // ANCHOR: fault
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    KeyValues kv = ForwardingCache::update(layer, key, value);
    if (layer == 0) mask_ = kv.visible;
    const bool fits = mask_.defined() && mask_.size(-1) == kv.keys.size(kSeqAxis);
    if (fits) kv.visible = mask_;  // wrong: the window of layer 0 in a layer that has another, or none
    return kv;
  }
  // ANCHOR_END: fault

 private:
  torch::Tensor mask_;
};

}  // namespace

Failure one_mask_for_all_layers() {
  return {
      .chapter = broken("10_layer_windows", "one_mask_for_all_layers", "makes one mask for layers of any window",
                        [](const ModelShape& shape, const CacheOptions& options) {
                          return std::make_unique<OneMaskForAllLayers>(shape, options.layer_windows);
                        }),
      .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
      .symptom = "full layers forget what lies before the window of another, when a prompt is fed",
      .cure = "a mask for each of the different windows: chapter 10",
      .scene = {.new_tokens = 16,
                .prompt = "There was once a clever boy named Max. He made a tiny brown doll for his cousin, who lived "
                          "by the lonely hill. At last they came to the hill. The cousin opened the door and saw the",
                .layer_windows = {16, 16, 0, 0}}};
}

}  // namespace kvbook

#include "chapters/02_cat_cache/answers/joint_cat_cache.h"

#include "common/axes.h"

namespace kvbook {
namespace {

constexpr int64_t kPairSeqAxis = kSeqAxis + 1;  // of [2, B, H, P, D]

}  // namespace

JointCatCache::JointCatCache(const ModelShape& shape) : KVCache(shape), pairs_(shape.layers) {}

void JointCatCache::on_begin(const Step& step) {
  TORCH_CHECK_VALUE(length() == 0 || step.ids.size(1) == 1, "this cache holds ", length(), " tokens and cannot take ",
                    step.ids.size(1), " at once: feed them one by one");
}

// ANCHOR: update
KeyValues JointCatCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  torch::Tensor& pair = pairs_[layer];
  const torch::Tensor fresh = torch::stack({key, value});  // [2, B, H, T, D], always memory of its own
  pair = pair.defined() ? torch::cat({pair, fresh}, kPairSeqAxis) : fresh;

  torch::Tensor visible;  // one query sees everything: no mask
  const int64_t T = new_tokens();
  if (T > 1) visible = torch::ones({T, T}, options().dtype(torch::kBool)).tril();
  return {pair[0], pair[1], visible};
}
// ANCHOR_END: update

// ANCHOR: memory
void JointCatCache::on_abandon() {  // some layers may have grown already
  for (torch::Tensor& pair : pairs_) {
    if (length() == 0) pair.reset();
    if (pair.defined()) pair = pair.narrow(kPairSeqAxis, 0, length());
  }
}

void JointCatCache::reset() {
  KVCache::reset();
  pairs_.assign(shape().layers, {});
}

int64_t JointCatCache::bytes() const {
  int64_t sum = 0;
  for (const torch::Tensor& pair : pairs_) sum += pair.defined() ? pair.nbytes() : 0;
  return sum;
}
// ANCHOR_END: memory

}  // namespace kvbook

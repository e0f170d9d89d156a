// A cache whose copied bytes are counted, forward by forward.
#pragma once

#include "common/forwarding_cache.h"

namespace kvbook {

/// Same answers as `inner`; notes how many bytes copying operators wrote inside it in each forward (OperationCounter).
class CopyCountingCache final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

  const std::vector<int64_t>& copied() const { return copied_; }  ///< bytes, a committed forward each

 protected:
  void on_begin(const Step& step) override;
  void on_commit() override;

 private:
  std::vector<int64_t> copied_;
  int64_t in_this_forward_ = 0;
};

}  // namespace kvbook

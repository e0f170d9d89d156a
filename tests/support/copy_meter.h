// Counts the bytes that LibTorch's copying operators write on this thread.
#pragma once

#include "common/forwarding_cache.h"

namespace kvbook {

/// Counts from its making on, on its own thread: what copy_, cat, index_copy_ and index_put_ write. clone(),
/// contiguous() and to() copy by copy_, so they count too, once. Arithmetic, masks and views do not.
class CopyMeter {
 public:
  CopyMeter();
  ~CopyMeter();
  CopyMeter(const CopyMeter&) = delete;
  CopyMeter& operator=(const CopyMeter&) = delete;

  int64_t bytes() const;

 private:
  int64_t before_;  // copied on this thread by then
};

/// Same answers as `inner`; notes what was copied inside it in each forward.
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

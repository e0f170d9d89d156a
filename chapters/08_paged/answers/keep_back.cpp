#include "chapters/08_paged/answers/keep_back.h"

#include <c10/util/Exception.h>

namespace kvbook {
namespace {

// ANCHOR: keep_back
class KeepBack final : public Reservation {
 public:
  KeepBack(std::unique_ptr<Reservation> inner, int64_t slots, int64_t spare)
      : inner_(std::move(inner)), slots_(slots), spare_(spare) {}

  bool grow(int64_t request, int64_t tokens) override {
    const int64_t before = held(request), others = held_ - before;
    if (!inner_->grow(request, tokens)) return false;
    const int64_t now = held(request);
    if (before == 0 && others > 0 && slots_ - others - now < spare_) {
      inner_->release(request);
      return false;
    }
    held_ = others + now;
    return true;
  }
  void release(int64_t request) override {
    held_ -= held(request);
    inner_->release(request);
  }
  int64_t held(int64_t request) const override { return inner_->held(request); }

 private:
  std::unique_ptr<Reservation> inner_;
  int64_t slots_, spare_;
  int64_t held_ = 0;  // by all requests
};
// ANCHOR_END: keep_back

}  // namespace

std::unique_ptr<Reservation> keep_back(std::unique_ptr<Reservation> inner, int64_t slots, int64_t spare) {
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
  return std::make_unique<KeepBack>(std::move(inner), slots, spare);
}

}  // namespace kvbook

#include "workshop/checker/checked_cache.h"

#include "common/forwarding_cache.h"
#include "tests/conformance/conformance_suite.h"

namespace kvbook {
namespace {

Chapter& checked() {
  static Chapter chapter;
  return chapter;
}

struct Owner {
  std::unique_ptr<KVCache> owned;
};

/// Keeps chunks on history away from a cache that need not know them.
class OneByOne final : private Owner, public ForwardingCache {
 public:
  explicit OneByOne(std::unique_ptr<KVCache> cache) : Owner{std::move(cache)}, ForwardingCache(*owned) {}

 protected:
  void on_begin(const Step& step) override {
    TORCH_CHECK_VALUE(length() == 0 || step.ids.size(1) == 1, "a chunk on history, which is not asked of this cache");
    ForwardingCache::on_begin(step);
  }
};

}  // namespace

void check_cache(const Chapter& chapter) { checked() = chapter; }

std::unique_ptr<KVCache> make_checked_cache(const ModelShape& shape, const CacheOptions& options) {
  return checked().make_cache(shape, options);
}

std::vector<CacheCase> conformance_cases() {
  const Chapter plain = {.name = kPlain, .make_cache = make_checked_cache};
  Chapter one_by_one = plain, fixed = plain, sliding = plain;
  one_by_one.name = kOneByOne;
  one_by_one.no_chunk_on_history = "not asked of this cache";
  one_by_one.make_cache = [](const ModelShape& shape, const CacheOptions& options) {
    return std::make_unique<OneByOne>(make_checked_cache(shape, options));
  };
  fixed.name = kFixed;
  fixed.takes_capacity = true;
  sliding.name = "sliding";
  sliding.takes_window = true;
  return cache_cases({plain, one_by_one, fixed, sliding});
}

}  // namespace kvbook

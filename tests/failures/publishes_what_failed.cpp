// A prefix cache that knows the pages of a forward that failed.
#include "chapters/08_paged/paged_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct PagesHeld {
  PagedCache pages;
};

class PublishesWhatFailed final : private PagesHeld, public ForwardingCache {
 public:
  PublishesWhatFailed(const ModelShape& shape, const CacheOptions& options)
      : PagesHeld{PagedCache(shape, /*page=*/2, /*pool_pages=*/0, options.rows)}, ForwardingCache(pages) {}

  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    next_layer_ = layer + 1;
    last_key_ = key;
    return ForwardingCache::update(layer, key, value);
  }

 protected:
  void on_commit() override {
    ForwardingCache::on_commit();
    next_layer_ = 0;
  }
  // ANCHOR: fault
  void on_abandon() override {
    if (next_layer_ == 0) return ForwardingCache::on_abandon();
    // Wrong: the tokens count, whatever became of them, and are taken back then. Their pages stay known.
    for (; next_layer_ < shape().layers; ++next_layer_) {
      pages.update(next_layer_, torch::zeros_like(last_key_), torch::zeros_like(last_key_));
    }
    pages.commit();
    for (int64_t b = 0; b < step_size(); ++b) pages.truncate(step_row(b), held(b));
    next_layer_ = 0;
  }
  // ANCHOR_END: fault

 private:
  int64_t next_layer_ = 0;
  torch::Tensor last_key_;
};

}  // namespace

Failure publishes_what_failed() {
  return {.chapter = broken("08_paged", "publishes_what_failed", "knows the pages of a forward that failed",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<PublishesWhatFailed>(shape, options);
                            }),
          .check = "Case33NothingIsAdoptedFromAForwardThatFailed",
          .symptom = "a request that failed once is answered with nonsense ever after",
          .cure = "publish in commit, when all layers are written: chapter 8",
          .scene = {.new_tokens = 40, .fails_first = true},
          .suite = "RaggedConformance"};
}

}  // namespace kvbook

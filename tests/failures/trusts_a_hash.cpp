// A prefix cache that compares hashes, and takes equal ones for equal tokens.
#include "chapters/08_paged/paged_cache.h"
#include "common/ids.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

struct PagesWithin {
  PagedCache pages;
};

/// Chapter 8's cache uses ids for nothing but the names of pages: it is shown hashes instead.
class TrustsAHash final : private PagesWithin, public ForwardingCache {
 public:
  TrustsAHash(const ModelShape& shape, const CacheOptions& options)
      : PagesWithin{PagedCache(shape, /*page=*/2, /*pool_pages=*/0, options.rows)}, ForwardingCache(pages) {}

 protected:
  // ANCHOR: fault
  static int64_t hash(int64_t id) { return id % 8; }  // wrong only in being so small: every hash has collisions

  void on_begin(const Step& step) override {
    Step hashed = step;
    hashed.ids = step.ids.remainder(8);
    ForwardingCache::on_begin(hashed);
  }
  int64_t on_adopt(int64_t row, const std::vector<int64_t>& prompt) override {
    std::vector<int64_t> hashes;
    for (const int64_t id : prompt) hashes.push_back(hash(id));
    return ForwardingCache::on_adopt(row, hashes);
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure trusts_a_hash() {
  return {.chapter = broken("08_paged", "trusts_a_hash", "takes equal hashes for equal tokens",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              return std::make_unique<TrustsAHash>(shape, options);
                            }),
          .check = "APromptIsNotTakenForAnotherThatDiffersInOneToken",
          .symptom = "a request is answered as if it had asked what another one did",
          .cure = "compare the tokens of the page and all before it: chapter 8",
          .scene = {.new_tokens = 200,
                    .prompt = "There was once a clever boy named Ben, who could make anything.",
                    .beside = "There was once a clever boy named Sam, who could make anything.",
                    .rows = 1},
          .suite = "RaggedConformance"};
}

}  // namespace kvbook

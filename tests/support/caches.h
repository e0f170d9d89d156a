// Every cache of the book as a test case, and caches that disturb or record another one.
#pragma once

#include <string>
#include <vector>

#include "chapters/chapters.h"
#include "common/forwarding_cache.h"
#include "common/generate.h"

namespace kvbook {

/// One cache as the conformance suite sees it.
struct CacheCase {
  std::string name;  // fit for a test's name
  Chapter chapter;
  std::optional<int64_t> window;  // undefined: the context
  torch::ScalarType dtype;
  double tolerance;  // of logits against the oracle
  std::function<Gpt2(const Checkpoint&)> make_model = [](const Checkpoint& checkpoint) { return Gpt2(checkpoint); };
  /// Where each layer has a window of its own, 0 for a full one: those of the first layers, and again from the start.
  std::vector<int64_t> layer_windows = {};
  /// Where a cache has another number of slots than a chapter's with the same flags: those of a layer for `length`
  /// tokens, at least 1, with a window of `window`.
  std::function<int64_t(int64_t length, int64_t window)> own_slots = {};
  /// Where it copies other tokens than a chapter's with the same flags: those of a layer for T new ones on `length`.
  std::function<int64_t(int64_t length, int64_t T, int64_t window)> own_copies = {};
  std::function<void(CacheOptions&)> more = {};  // sets what else the cache is made with
  /// Where it rounds: the bytes that it holds for `length` tokens, at least 1, in each row.
  std::function<int64_t(const ModelShape& shape, int64_t rows, int64_t length, int64_t element)> own_bytes = {};
  bool needs_ranges = false;            // of channels
  bool copies_by_its_own_rule = false;  // copied_tokens() does not hold: its own test counts
  std::function<Generation(Gpt2&, KVCache&, const torch::Tensor&, const GenerateOptions&)> generate = kvbook::generate;

  bool takes_chunk_on_history() const { return chapter.no_chunk_on_history.empty(); }
  CacheOptions options(const ModelShape& shape, int64_t rows = 0) const;
  std::unique_ptr<KVCache> make_cache(const ModelShape& shape, int64_t rows = 0) const;
  /// Tokens that a layer with this window has memory for when `length` are held: none at first, then what it grew to or
  /// was made for.
  int64_t slots(const ModelShape& shape, int64_t length, int64_t window) const;
  /// Tokens that such a layer copies when T new ones come on `length` committed: the time that it promises.
  int64_t copied_tokens(int64_t length, int64_t T, int64_t window) const;
  /// The same in bytes, for all layers.
  int64_t copied_bytes(const ModelShape& shape, int64_t rows, int64_t length, int64_t T, int64_t element) const;
  /// Bytes held for so many tokens in each row; `element`: of the model's dtype.
  int64_t bytes(const ModelShape& shape, int64_t rows, int64_t length, int64_t element) const;
  bool rounds() const { return !chapter.rounds.empty(); }          ///< right is what it gives itself, fed at once
  std::vector<int64_t> windows_in(const ModelShape& shape) const;  ///< a layer each
};

inline void PrintTo(const CacheCase& cache_case, std::ostream* out) { *out << cache_case.name; }  // for GoogleTest

/// Tokens that a ring of so many slots copies.
int64_t ring_copies(int64_t length, int64_t T, int64_t slots);

/// All of these that have a cache, in float64 and float32; those that take a window also with windows of 1, 3 and 4,
/// those with pages also with pages of 1 and 3, those with scales with each kind, those with a window a layer with
/// several lists of them.
std::vector<CacheCase> cache_cases(const std::vector<Chapter>& list);

/// Throws after layer 0 of the next forward, once, if armed.
class FailingCache final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;
  void arm() { armed_ = true; }
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

 private:
  bool armed_ = false;
};

/// Counts the forwards that were asked for, refused ones too.
class CountingCache final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;
  int64_t begins = 0;

 protected:
  void on_begin(const Step& step) override {
    ++begins;
    ForwardingCache::on_begin(step);
  }
};

/// Remembers a copy of what each layer's attention was last given, and how many query tokens each forward had.
class RecordingCache final : public ForwardingCache {
 public:
  explicit RecordingCache(KVCache& inner)
      : ForwardingCache(inner), seen(inner.shape().layers), columns_seen(seen.size()) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override;

  std::vector<KeyValues> seen;                     // a layer each
  std::vector<std::vector<int64_t>> columns_seen;  // the positions of their keys
  std::vector<int64_t> query_tokens;               // a forward each
};

}  // namespace kvbook

#include "tests/support/caches.h"

#include <fmt/format.h>

#include "common/axes.h"

namespace kvbook {

std::unique_ptr<KVCache> CacheCase::make_cache(const ModelShape& shape, int64_t rows) const {
  CacheOptions options = default_cache_options(shape);
  options.rows = rows;
  options.window = window_in(shape);
  options.page = page.value_or(options.page);
  return chapter.make_cache(shape, options);
}

int64_t CacheCase::slots(const ModelShape& shape, int64_t length) const {
  if (length == 0) return 0;
  if (own_slots) return own_slots(length, window_in(shape));
  if (chapter.takes_capacity) return default_cache_options(shape).capacity;
  if (chapter.takes_window) return window_in(shape);
  return length;
}

int64_t CacheCase::copied_tokens(const ModelShape& shape, int64_t length, int64_t T) const {
  if (own_copies) return own_copies(length, T, window_in(shape));
  if (chapter.takes_capacity) return T;
  if (!chapter.takes_window) return length + T;  // cat: a new tensor for all of them
  const int64_t W = window_in(shape), h = std::min(length, W - 1);
  if (h + T < W) return T;
  if (h + T == W) return T + 2 * (W - 1);  // written in place, then W - 1 are shifted: into scratch and back
  return (h + T) + (W - 1);                // staged beside the window, then its end is copied in
}

int64_t ring_copies(int64_t length, int64_t T, int64_t slots) {
  if (T == 1 || length + T <= slots) return T;
  return std::min(length, slots) + T + std::min(T, slots);  // staged behind what is held, then its end is stored
}

namespace {

/// Written in place into memory for the context, as chapter 4.
void copies_as_preallocated(CacheCase& cache_case) {
  cache_case.own_slots = [](int64_t, int64_t context) { return context; };
  cache_case.own_copies = [](int64_t, int64_t T, int64_t) { return T; };
}

/// Written in place, and gathered in whole pages.
void copies_as_paged(CacheCase& cache_case, int64_t page) {
  const auto whole_pages = [page](int64_t tokens) { return (tokens + page - 1) / page * page; };
  cache_case.own_slots = [=](int64_t, int64_t context) { return whole_pages(context); };
  cache_case.own_copies = [=](int64_t length, int64_t T, int64_t) { return T + whole_pages(length + T); };
}

}  // namespace

std::vector<CacheCase> cache_cases(const std::vector<Chapter>& list) {
  std::vector<CacheCase> cases;
  for (const Chapter& chapter : list) {
    if (!chapter.make_cache) continue;
    std::vector<std::optional<int64_t>> sizes = {std::nullopt};  // of a window or a page
    if (chapter.takes_window) sizes.insert(sizes.end(), {1, 3, 4});
    if (chapter.takes_pages) sizes.insert(sizes.end(), {1, 3});
    for (const auto& size : sizes) {
      const std::string flag = chapter.takes_pages ? "page" : "window";
      const std::string name = chapter.name + (size ? fmt::format("_{}_{}", flag, *size) : "");
      CacheCase cache_case{name + "_float64", chapter, {}, torch::kFloat64, 1e-9};
      (chapter.takes_pages ? cache_case.page : cache_case.window) = size;
      if (chapter.name == "06_ring_buffer") cache_case.own_copies = ring_copies;
      if (chapter.name == "07_ragged_batch") copies_as_preallocated(cache_case);
      if (chapter.takes_pages) copies_as_paged(cache_case, size.value_or(CacheOptions{}.page));
      cases.push_back(cache_case);
      cache_case.name = name + "_float32";
      cache_case.dtype = torch::kFloat32;
      cache_case.tolerance = 1e-4;
      cases.push_back(cache_case);
    }
  }
  return cases;
}

KeyValues FailingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  if (armed_ && layer == 1) {
    armed_ = false;
    TORCH_CHECK(false, "injected fault");
  }
  return ForwardingCache::update(layer, key, value);
}

KeyValues RecordingCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  const KeyValues kv = ForwardingCache::update(layer, key, value);
  if (layer == 0) query_tokens.push_back(key.size(kSeqAxis));
  if (layer == 0) columns_seen = columns();
  seen[layer] = {kv.keys.clone(), kv.values.clone(), kv.visible.defined() ? kv.visible.clone() : kv.visible};
  return kv;
}

}  // namespace kvbook

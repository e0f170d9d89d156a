#include "tests/support/caches.h"

#include <fmt/ranges.h>

#include "common/axes.h"

namespace kvbook {

CacheOptions CacheCase::options(const ModelShape& shape, int64_t rows) const {
  CacheOptions options = default_cache_options(shape);
  options.rows = rows;
  options.window = window.value_or(shape.context);
  for (int64_t layer = 0; layer < shape.layers && !layer_windows.empty(); ++layer) {
    options.layer_windows.push_back(layer_windows[layer % layer_windows.size()]);
  }
  if (more) more(options);
  if (needs_ranges) {  // wide enough for keys that say their position
    const std::vector<int64_t> size = {shape.layers, shape.kv_heads, shape.head_size};
    const torch::Tensor channels = torch::linspace(8, 12, shape.layers * shape.kv_heads * shape.head_size).view(size);
    options.ranges = {channels, channels.flip({0, 1, 2})};
  }
  return options;
}

std::unique_ptr<KVCache> CacheCase::make_cache(const ModelShape& shape, int64_t rows) const {
  return chapter.make_cache(shape, options(shape, rows));
}

std::vector<int64_t> CacheCase::windows_in(const ModelShape& shape) const {
  const CacheOptions with = options(shape);
  std::vector<int64_t> windows(shape.layers, with.window);
  for (size_t layer = 0; layer < with.layer_windows.size(); ++layer) {
    if (with.layer_windows[layer] > 0) windows[layer] = with.layer_windows[layer];
  }
  return windows;
}

int64_t CacheCase::slots(const ModelShape& shape, int64_t length, int64_t window) const {
  if (length == 0) return 0;
  if (own_slots) return own_slots(length, window);
  if (chapter.takes_capacity) return default_cache_options(shape).capacity;
  if (chapter.takes_window) return window;
  return length;
}

int64_t CacheCase::bytes(const ModelShape& shape, int64_t rows, int64_t length, int64_t element) const {
  if (own_bytes) return length == 0 ? 0 : own_bytes(shape, rows, length, element);
  int64_t tokens = 0;  // of all layers
  for (const int64_t W : windows_in(shape)) tokens += slots(shape, length, W);
  return key_value_bytes(shape, rows, tokens, element) / shape.layers;
}

int64_t CacheCase::copied_bytes(const ModelShape& shape, int64_t rows, int64_t length, int64_t T,
                                int64_t element) const {
  int64_t tokens = 0;
  for (const int64_t W : windows_in(shape)) tokens += copied_tokens(length, T, W);
  return key_value_bytes(shape, rows, tokens, element) / shape.layers;
}

int64_t CacheCase::copied_tokens(int64_t length, int64_t T, int64_t W) const {
  if (own_copies) return own_copies(length, T, W);
  if (chapter.takes_capacity) return T;
  if (!chapter.takes_window) return length + T;  // cat: a new tensor for all of them
  const int64_t h = std::min(length, W - 1);
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

void add_windows(std::vector<CacheCase>& variants) {
  for (const int64_t window : {1, 3, 4}) {
    CacheCase windowed = variants.front();
    windowed.name += fmt::format("_window_{}", window);
    windowed.window = window;
    variants.push_back(windowed);
  }
}

void add_pages(std::vector<CacheCase>& variants) {
  copies_as_paged(variants.front(), CacheOptions{}.page);
  for (const int64_t page : {1, 3}) {
    CacheCase paged = variants.front();
    paged.name += fmt::format("_page_{}", page);
    paged.more = [page](CacheOptions& options) { options.page = page; };
    copies_as_paged(paged, page);
    variants.push_back(paged);
  }
}

/// Rings, as chapter 6, each layer's of its window.
void add_layer_windows(std::vector<CacheCase>& variants) {
  variants.front().own_slots = [](int64_t, int64_t window) { return window; };
  variants.front().own_copies = ring_copies;
  for (const std::vector<int64_t>& windows : {std::vector<int64_t>{2, 0}, {0, 2}, {1, 4}, {3}}) {
    CacheCase windowed = variants.front();
    windowed.name += fmt::format("_{}", fmt::join(windows, "_"));
    windowed.layer_windows = windows;
    variants.push_back(windowed);
  }
}

/// Written in place as chapter 4, with memory for some layers.
void add_residents(std::vector<CacheCase>& variants) {
  copies_as_preallocated(variants.front());
  variants.front().name += "_2_resident";
  variants.push_back(variants.front());
  variants.back().name = variants.back().chapter.name + "_1_resident";
  variants.back().more = [](CacheOptions& options) { options.resident_layers = 1; };
  for (CacheCase& each : variants) {
    each.own_bytes = [each](const ModelShape& s, int64_t rows, int64_t, int64_t element) {
      const int64_t residents = std::min(each.options(s).resident_layers, s.layers);
      return key_value_bytes(s, rows, s.context, element) / s.layers * residents;
    };
  }
}

/// Slots for the context, by position.
void add_scales(std::vector<CacheCase>& variants) {
  CacheCase& token = variants.front();
  token.own_slots = [](int64_t, int64_t context) { return context; };
  token.copies_by_its_own_rule = true;
  token.own_bytes = [](const ModelShape& s, int64_t rows, int64_t, int64_t) {
    return 2 * s.layers * rows * s.kv_heads * s.context * (s.head_size + 4);
  };
  const CacheCase plain = token;
  CacheCase channel = plain;
  channel.name += "_channel";
  channel.more = [](CacheOptions& options) { options.scales = Scales::kChannel; };
  channel.needs_ranges = true;
  channel.own_bytes = [](const ModelShape& s, int64_t rows, int64_t, int64_t) {
    return 2 * s.layers * s.kv_heads * s.head_size * (rows * s.context + 4);
  };
  variants.push_back(channel);
  for (const int64_t group : {2, 3, 4}) {
    CacheCase grouped = plain;
    grouped.name += fmt::format("_group_{}", group);
    grouped.more = [group](CacheOptions& options) {
      options.scales = Scales::kGroup;
      options.group = group;
    };
    grouped.own_bytes = [group](const ModelShape& s, int64_t rows, int64_t length, int64_t element) {
      const int64_t groups = s.context / group, open = length % group;  // codes, their scales, and as they came
      return 2 * s.layers * rows * s.kv_heads * s.head_size * (groups * group + 4 * groups + open * element);
    };
    variants.push_back(grouped);
  }
}

}  // namespace

std::vector<CacheCase> cache_cases(const std::vector<Chapter>& list) {
  std::vector<CacheCase> cases;
  for (const Chapter& chapter : list) {
    if (!chapter.make_cache) continue;
    CacheCase plain{chapter.name, chapter, {}, torch::kFloat64, 1e-9};
    if (chapter.name == "06_ring_buffer") plain.own_copies = ring_copies;
    if (chapter.name == "07_ragged_batch") copies_as_preallocated(plain);
    std::vector<CacheCase> variants = {plain};
    if (chapter.takes_window) add_windows(variants);
    if (chapter.takes_pages) add_pages(variants);
    if (chapter.takes_scales) add_scales(variants);
    if (chapter.takes_spill) add_residents(variants);
    if (chapter.takes_layer_windows) add_layer_windows(variants);
    for (CacheCase& variant : variants) {
      const std::string name = variant.name;
      variant.name = name + "_float64";
      cases.push_back(variant);
      variant.name = name + "_float32";
      variant.dtype = torch::kFloat32;
      variant.tolerance = chapter.rounds.empty() ? 1e-4 : 0.1;  // the edge between two codes: a whole step away
      cases.push_back(variant);
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
  columns_seen[layer] = layer_columns(layer);
  seen[layer] = {kv.keys.clone(), kv.values.clone(), kv.visible.defined() ? kv.visible.clone() : kv.visible};
  return kv;
}

}  // namespace kvbook

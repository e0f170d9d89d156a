// build/bin/by_hand NN_name: one chapter's attention in numbers that fit on paper. The model is nano (D = 4), three
// tokens are fed, and layer 0's first head is shown.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <numeric>

#include "chapters/chapters.h"
#include "common/attention.h"
#include "common/cli.h"
#include "common/forwarding_cache.h"
#include "common/gpt2.h"
#include "common/ids.h"
#include "common/model_source.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

const Numbers kTokens = {4, 9, 4};  // the beginning of the prompt in data/golden/nano/past_key_values.json

/// How the three tokens are fed, and the sizes that make a chapter's point.
struct Example {
  Numbers feed = {};
  int64_t window = 8, capacity = 8, page = 2;
  Numbers layer_windows = {};
  int64_t resident_layers = 2;
  std::vector<std::vector<Numbers>> rows =
      {};  // instead: the tokens of each row, a forward each; the last row is shown
};
const std::map<std::string, Example> kExamples = {
    {"01_naive", {{3}}},
    {"02_cat_cache", {{2, 1}}},
    {"03_masked_offsets", {{1, 2}}},
    {"04_preallocated", {.feed = {1, 2}, .capacity = 5}},
    {"05_sliding_window", {.feed = {1, 2}, .window = 2}},
    {"06_ring_buffer", {.feed = {1, 1, 1}, .window = 2}},
    {"07_ragged_batch", {.rows = {{{7, 2, 11}, {4, 9}}, {{5}, {4}}}}},
    {"09_int8", {.feed = {1, 2}}},
    {"08_paged", {.rows = {{{7, 2, 11}, {4, 9}}, {{5}, {4}}}}},
    {"11_offload", {.feed = {1, 2}, .resident_layers = 1}},
    {"10_layer_windows", {.feed = {1, 1, 1}, .layer_windows = {2, 0}}},
};

/// Query, key and value of layer 0's first head, [T, D] each, for tokens that stand at `first` and after.
struct Head {
  torch::Tensor query, key, value;
};

Head first_head(const Checkpoint& nano, const Numbers& ids, int64_t first) {
  const auto weight = [&](const std::string& name) { return nano.weights.at(name); };
  const int64_t T = static_cast<int64_t>(ids.size()), E = nano.config.embedding, D = nano.config.head_size();
  const torch::Tensor x =
      at::embedding(weight("wte.weight"), to_row(ids)[0]) + weight("wpe.weight").narrow(0, first, T);
  const torch::Tensor normal =
      at::layer_norm(x, {E}, weight("h.0.ln_1.weight"), weight("h.0.ln_1.bias"), nano.config.layer_norm_epsilon);
  const torch::Tensor qkv = at::matmul(normal, weight("h.0.attn.c_attn.weight")) + weight("h.0.attn.c_attn.bias");
  return {qkv.narrow(1, 0, D), qkv.narrow(1, E, D), qkv.narrow(1, 2 * E, D)};  // head 0 is the first D columns of each
}

/// Remembers what layer 0's attention was given, one row and first head.
class FirstLayer final : public ForwardingCache {
 public:
  explicit FirstLayer(KVCache& cache, int64_t row = 0) : ForwardingCache(cache), row_(row) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    const KeyValues kv = ForwardingCache::update(layer, key, value);
    if (layer > 0) return kv;
    const bool own_mask = kv.visible.defined() && kv.visible.dim() == 4;
    seen = {kv.keys[row_][0].clone(), kv.values[row_][0].clone(), own_mask ? kv.visible[row_][0] : kv.visible};
    positions = columns(row_);
    return kv;
  }
  KeyValues seen;     // keys, values [S, D]; visible [T, S] or undefined
  Numbers positions;  // of the S keys

 private:
  int64_t row_;
};

/// Positions first to first + count - 1.
Numbers consecutive(int64_t first, int64_t count) {
  Numbers positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

/// A matrix as lines, each row behind the position that it belongs to; undefined entries of `shown` as dots.
std::vector<std::string> lines_of(const torch::Tensor& matrix, const Numbers& positions,
                                  const torch::Tensor& shown = {}) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    std::string line = positions[i] == kEmptySlot ? "  - |" : fmt::format("{:>3} |", positions[i]);
    for (int64_t j = 0; j < matrix.size(1); ++j) {
      const bool show = !shown.defined() || shown[i][j].item<bool>();
      line += show ? fmt::format("{:>7.3f}", matrix[i][j].item<double>()) : fmt::format("{:>7}", ".");
    }
    lines.push_back(line);
  }
  return lines;
}

void print_beside(const std::string& left_title, const std::vector<std::string>& left, const std::string& right_title,
                  const std::vector<std::string>& right) {
  fmt::print("  {:<38}{}\n", left_title, right_title);
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string line =
        fmt::format("  {:<38}{}", i < left.size() ? left[i] : "", i < right.size() ? right[i] : "");
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  fmt::print("\n");
}

/// Shows the attention of one forward, whose queries and keys stand at these positions, and returns its result, [T, D].
torch::Tensor show_attention(const torch::Tensor& query, const KeyValues& kv, const Numbers& queries,
                             const Numbers& keys) {
  const int64_t T = query.size(0), S = kv.keys.size(0), D = query.size(1);
  const torch::Tensor visible = kv.visible.defined() ? kv.visible : torch::ones({T, S}, torch::kBool);
  const torch::Tensor scores = at::matmul(query, kv.keys.t()) / std::sqrt(static_cast<double>(D));
  const torch::Tensor weights = scores.masked_fill(visible.logical_not(), -INFINITY).softmax(-1);
  const torch::Tensor mixed = at::matmul(weights, kv.values);
  const auto one_head = [](const torch::Tensor& rows) { return rows.unsqueeze(0).unsqueeze(0); };  // [1, 1, T, D]
  const torch::Tensor fused = attend(one_head(query), {one_head(kv.keys), one_head(kv.values), kv.visible})[0][0];
  TORCH_CHECK(at::allclose(mixed, fused, 0, 1e-9), "this arithmetic is not that of common/attention");
  print_beside("queries", lines_of(query, queries), "keys", lines_of(kv.keys, keys));
  print_beside("scores = queries · keysᵀ / √4", lines_of(scores, queries, visible), "weights = softmax of each row",
               lines_of(weights, queries, visible));
  print_beside("values", lines_of(kv.values, keys), "result = weights · values", lines_of(mixed, queries));
  return mixed;
}

std::string slots_text(const Numbers& slots) {
  std::string text;
  for (const int64_t position : slots) text += position == kEmptySlot ? " -" : fmt::format(" {}", position);
  return text;
}

/// Of each layer, where layers keep different positions.
void print_slots(const KVCache& cache) {
  const int64_t L = cache.shape().layers;
  bool alike = true;
  for (int64_t layer = 0; layer < L; ++layer) alike = alike && cache.same_slots_as(layer) == 0;
  if (alike) fmt::print("  slots after commit:{}\n", slots_text(cache.slots()));
  for (int64_t layer = 0; layer < L && !alike; ++layer) {
    fmt::print("  slots of layer {} after commit:{}\n", layer, slots_text(cache.layer_slots(layer)));
  }
  fmt::print("\n");
}

std::string positions_text(int64_t P, int64_t T) {
  return T > 1 ? fmt::format("positions {} to {}", P, P + T - 1) : fmt::format("position {}", P);
}

/// Several rows in each forward; the attention of the last one.
void show_rows(const Chapter& chapter, const Checkpoint& nano, const Example& example) {
  Gpt2 model(nano);
  const auto B = static_cast<int64_t>(example.rows.front().size()), shown = B - 1;
  const auto inner = chapter.make_cache(model->shape(), {.window = 8, .capacity = 8, .rows = B, .page = example.page});
  FirstLayer cache(*inner, shown);
  for (const std::vector<Numbers>& tokens : example.rows) {
    int64_t T = 0;
    for (const Numbers& row : tokens) T = std::max(T, static_cast<int64_t>(row.size()));
    Step step{.ids = torch::zeros({B, T}, torch::kInt64), .counts = torch::empty({B}, torch::kInt64)};
    for (int64_t b = 0; b < B; ++b) {
      const auto n = static_cast<int64_t>(tokens[b].size());
      step.ids[b].narrow(0, 0, n).copy_(to_row(tokens[b])[0]);
      step.counts[b] = n;
      fmt::print("row {}: P = {}, {} of T = {}: token{} {} at {}\n", b, cache.length(b), n, T, n > 1 ? "s" : "",
                 joined(tokens[b]), positions_text(cache.length(b), n));
    }
    const int64_t P = cache.length(shown);
    const auto n = static_cast<int64_t>(tokens[shown].size());
    model->hidden(step, cache);
    fmt::print("\nrow {}\n\n", shown);
    KeyValues seen = cache.seen;
    if (seen.visible.defined()) seen.visible = seen.visible.narrow(0, 0, n);  // of its tokens, without the padding
    show_attention(first_head(nano, tokens[shown], P).query, seen, consecutive(P, n), cache.positions);
    for (int64_t b = 0; b < B; ++b) fmt::print("  slots of row {} after commit:{}\n", b, slots_text(cache.slots(b)));
    fmt::print("\n");
  }
}

void show_example(const Chapter& chapter) {
  const Checkpoint nano = open_model((data_folder() / "golden" / "nano").string(), torch::kFloat64).checkpoint;
  const Example& example = kExamples.at(chapter.name);
  if (!example.rows.empty()) {
    fmt::print("{}: the nano model (L 2, H 2, D 4), layer 0, head 0\n\n", chapter.name);
    return show_rows(chapter, nano, example);
  }
  const Head whole = first_head(nano, kTokens, 0);
  const KeyValues uncached = {whole.key, whole.value, torch::ones({3, 3}, torch::kBool).tril()};
  fmt::print("{}: tokens {} on the nano model (L 2, H 2, D 4), layer 0, head 0\n\n", chapter.name, joined(kTokens));
  if (!chapter.make_cache) {
    show_attention(whole.query, uncached, consecutive(0, 3), consecutive(0, 3));
    return;
  }

  Gpt2 model(nano);
  const auto inner = chapter.make_cache(model->shape(), {.window = example.window,
                                                         .capacity = example.capacity,
                                                         .layer_windows = example.layer_windows,
                                                         .resident_layers = example.resident_layers});
  FirstLayer cache(*inner);
  for (const int64_t T : example.feed) {
    const int64_t P = cache.length();
    const Numbers ids(kTokens.begin() + P, kTokens.begin() + P + T);
    fmt::print("P = {}, T = {}: token{} {} at {}\n\n", P, T, T > 1 ? "s" : "", joined(ids), positions_text(P, T));
    model->hidden({to_row(ids)}, cache);
    show_attention(first_head(nano, ids, P).query, cache.seen, consecutive(P, T), cache.positions);
    print_slots(cache);
  }
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("by_hand", [&] {
    std::string name = "01_naive";
    CLI::App app("One chapter's attention in numbers that fit on paper", "by_hand");
    app.add_option("chapter", name, "a chapter's name, as 03_masked_offsets")->capture_default_str();
    if (!parse_or_help(app, argc, argv)) return 0;
    if (kExamples.count(name) == 0) {
      throw UsageError(fmt::format("there is no example called '{}': name a chapter, as 03_masked_offsets", name));
    }
    show_example(find_chapter(name));
    return 0;
  });
}

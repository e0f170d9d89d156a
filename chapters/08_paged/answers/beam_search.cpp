#include "chapters/08_paged/answers/beam_search.h"

#include "common/generation.h"
#include "common/ids.h"

namespace kvbook {
namespace {

void check_beam_search(const Gpt2Config& config, const PagedCache& cache, const std::vector<int64_t>& prompt, int64_t k,
                       int64_t new_tokens) {
  check_ids(to_row(prompt), config.vocabulary);
  const int64_t room = room_after(static_cast<int64_t>(prompt.size()), config.context);
  TORCH_CHECK_VALUE(1 <= new_tokens && new_tokens <= room, "between 1 and ", room, " new tokens can be asked for, not ",
                    new_tokens);
  TORCH_CHECK_VALUE(1 <= k && k <= config.vocabulary, "there are between 1 and ", config.vocabulary, " beams, not ", k);
  for (int64_t row = 0; row < k; ++row) {
    TORCH_CHECK_VALUE(cache.length(row) == 0, "row ", row, " holds ", cache.length(row), " tokens: truncate it to 0");
  }
}

// ANCHOR: best
struct Continuation {
  int64_t beam, id;
  double score;
};

/// The k best, best first. logits: [beams, V].
std::vector<Continuation> best_continuations(const std::vector<Beam>& beams, const torch::Tensor& logits, int64_t k) {
  std::vector<double> scores;
  for (const Beam& beam : beams) scores.push_back(beam.score);
  const torch::Tensor log_probabilities = logits.cpu().to(torch::kFloat64).log_softmax(-1);
  TORCH_CHECK_VALUE(log_probabilities.isfinite().all().item<bool>(), "the model's logits are not finite");
  const torch::Tensor sums = (torch::tensor(scores, torch::kFloat64).unsqueeze(1) + log_probabilities).flatten();
  // In `sums` earlier beams come first, and lower ids of the same beam. A stable sort leaves equals in that order.
  const auto [sorted, order] = sums.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  std::vector<Continuation> best;
  for (int64_t i = 0; i < k; ++i) {
    const auto at = order[i].item<int64_t>(), V = logits.size(1);
    best.push_back({.beam = at / V, .id = at % V, .score = sorted[i].item<double>()});
  }
  return best;
}
// ANCHOR_END: best

// ANCHOR: rows
/// A row for each of the next beams, which holds what its parent's row holds; `rows` are the parents'. A beam with no
/// child leaves first. So there are enough: of k children, all but the first of each parent need another row.
std::vector<int64_t> rows_of_children(PagedCache& cache, const std::vector<int64_t>& rows,
                                      const std::vector<Continuation>& children) {
  std::vector<bool> has_child(rows.size(), false), has_given(rows.size(), false);
  for (const Continuation& child : children) has_child[child.beam] = true;
  for (size_t beam = 0; beam < rows.size(); ++beam) {
    if (!has_child[beam]) cache.truncate(rows[beam], 0);
  }
  std::vector<int64_t> next;
  int64_t spare = 0;
  for (const Continuation& child : children) {
    const int64_t row = rows[child.beam];
    if (!has_given[child.beam]) {  // the first one takes the row over
      has_given[child.beam] = true;
      next.push_back(row);
      continue;
    }
    while (cache.length(spare) > 0) ++spare;
    cache.fork(row, spare);
    next.push_back(spare);
  }
  return next;
}
// ANCHOR_END: rows

}  // namespace

// ANCHOR: search
std::vector<Beam> beam_search(Gpt2& model, PagedCache& cache, const std::vector<int64_t>& prompt, int64_t k,
                              int64_t new_tokens) {
  check_beam_search(model->config(), cache, prompt, k, new_tokens);
  std::vector<Beam> beams(1);
  std::vector<int64_t> rows = {0};  // a beam each
  Step step{.ids = to_row(prompt), .rows = to_row(rows)[0]};
  while (true) {
    const torch::Tensor logits = model->logits(model->hidden(step, cache).select(1, -1));  // [beams, V]
    const std::vector<Continuation> children = best_continuations(beams, logits, k);
    std::vector<Beam> next;
    std::vector<int64_t> fed;
    for (const auto& [beam, id, score] : children) {
      next.push_back({.new_ids = beams[beam].new_ids, .score = score});
      next.back().new_ids.push_back(id);
      fed.push_back(id);
    }
    beams = std::move(next);
    if (static_cast<int64_t>(beams[0].new_ids.size()) == new_tokens) break;
    rows = rows_of_children(cache, rows, children);
    step = {.ids = to_row(fed).view({k, 1}), .rows = to_row(rows)[0]};
  }
  for (const int64_t row : rows) cache.truncate(row, 0);
  return beams;
}
// ANCHOR_END: search

}  // namespace kvbook

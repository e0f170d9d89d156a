#include "chapters/07_ragged_batch/answers/mixed_batch.h"

#include <algorithm>

#include "common/ids.h"

namespace kvbook {
namespace {

struct MixedRow {
  size_t request = 0;
  std::vector<int64_t> to_feed = {};  // what is left of the prompt, or the token chosen last; empty: the row is free
};

void check_mixed(const Gpt2Config& config, const std::vector<Request>& requests, int64_t rows, int64_t chunk) {
  TORCH_CHECK_VALUE(rows >= 1 && chunk >= 1, "rows and chunk must be at least 1, not ", rows, " and ", chunk);
  for (const Request& request : requests) {
    check_ids(to_row(request.prompt), config.vocabulary);
    const int64_t room = room_after(static_cast<int64_t>(request.prompt.size()), config.context);
    TORCH_CHECK_VALUE(1 <= request.new_tokens && request.new_tokens <= room, "between 1 and ", room,
                      " new tokens can be asked for, not ", request.new_tokens);
  }
}

// ANCHOR: step
/// The next tokens of all rows that have any, taken from what they are to be fed.
Step mixed_step(std::vector<MixedRow>& rows, int64_t chunk) {
  std::vector<int64_t> named, counts;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].to_feed.empty()) continue;
    named.push_back(static_cast<int64_t>(row));
    counts.push_back(std::min(chunk, static_cast<int64_t>(rows[row].to_feed.size())));
  }
  if (named.empty()) return {};
  const auto B = static_cast<int64_t>(named.size());
  Step step{.ids = torch::zeros({B, *std::max_element(counts.begin(), counts.end())}, torch::kInt64),
            .counts = to_row(counts)[0],
            .rows = to_row(named)[0]};
  for (int64_t b = 0; b < B; ++b) {
    std::vector<int64_t>& left = rows[named[b]].to_feed;
    const auto end = left.begin() + counts[b];
    step.ids[b].narrow(0, 0, counts[b]).copy_(to_row({left.begin(), end})[0]);
    left.erase(left.begin(), end);
  }
  return step;
}
// ANCHOR_END: step

}  // namespace

// ANCHOR: loop
MixedGeneration generate_mixed(Gpt2& model, KVCache& cache, const std::vector<Request>& requests, int64_t rows,
                               int64_t chunk) {
  check_mixed(model->config(), requests, rows, chunk);
  MixedGeneration done{.new_ids = std::vector<std::vector<int64_t>>(requests.size())};
  std::vector<MixedRow> working(rows);
  size_t next = 0;  // the first request that waits
  while (true) {
    for (MixedRow& row : working) {
      if (!row.to_feed.empty() || next == requests.size()) continue;
      row = {.request = next, .to_feed = requests[next].prompt};
      ++next;
    }
    const Step step = mixed_step(working, chunk);
    if (!step.ids.defined()) return done;
    done.columns.push_back(step.ids.size(1));
    done.padding_tokens += step.ids.numel() - step.counts.sum().item<int64_t>();

    const torch::Tensor hidden = model->hidden(step, cache);  // [B, T, E]
    for (int64_t b = 0; b < hidden.size(0); ++b) {
      const auto at = step.rows[b].item<int64_t>();
      MixedRow& row = working[at];
      if (!row.to_feed.empty()) continue;  // its prompt goes on
      const torch::Tensor last = hidden[b][step.counts[b].item<int64_t>() - 1];
      std::vector<int64_t>& ids = done.new_ids[row.request];
      ids.push_back(greedy_choice(model->logits(last)).item<int64_t>());
      if (static_cast<int64_t>(ids.size()) < requests[row.request].new_tokens)
        row.to_feed = {ids.back()};
      else
        cache.truncate(at, 0);
    }
  }
}
// ANCHOR_END: loop

}  // namespace kvbook

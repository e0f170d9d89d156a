#include "chapters/07_ragged_batch/answers/shortest_first.h"

#include <algorithm>
#include <numeric>

namespace kvbook {

// ANCHOR: shortest_first
BatchGeneration generate_shortest_first(Gpt2& model, KVCache& cache, const std::vector<Request>& requests,
                                        const BatchOptions& options) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].prompt.size() < requests[b].prompt.size(); });
  std::vector<Request> sorted;
  for (const size_t request : order) sorted.push_back(requests[request]);
  BatchOptions in_order = options;
  if (options.on_token) in_order.on_token = [&](size_t i, int64_t id) { options.on_token(order[i], id); };
  BatchGeneration done = generate_batch(model, cache, sorted, in_order);
  std::vector<Generation> answers(requests.size());
  for (size_t i = 0; i < order.size(); ++i) answers[order[i]] = std::move(done.answers[i]);
  done.answers = std::move(answers);
  return done;
}
// ANCHOR_END: shortest_first

}  // namespace kvbook

#include "chapters/08_paged/answers/adopt_to_the_last.h"

namespace kvbook {

// ANCHOR: adopt
int64_t adopt_to_the_last(PagedCache& cache, int64_t row, const std::vector<int64_t>& prompt) {
  TORCH_CHECK_VALUE(!prompt.empty(), "there is no token in the prompt");
  const auto n = static_cast<int64_t>(prompt.size());
  std::vector<int64_t> longer = prompt;
  longer.push_back(0);  // whatever it is: the last token is never adopted
  const int64_t adopted = cache.adopt_prefix(row, longer);
  if (adopted < n) return adopted;

  const BlockTables& tables = cache.tables();
  const int64_t kept = tables.pool().available() > 0 ? n - 1 : n - tables.page_tokens();
  cache.truncate(row, kept);
  return kept;
}
// ANCHOR_END: adopt

}  // namespace kvbook

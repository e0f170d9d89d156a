// Exercise 8.1: a prompt that is wholly cached feeds one token.
#pragma once

#include "chapters/08_paged/paged_cache.h"

namespace kvbook {

// ANCHOR: contract
/// PagedCache::adopt_prefix(), but a prompt whose n tokens fill whole pages is adopted up to its last token where all
/// its pages are known and the pool has one more for the copy of the last; where it has none, up to the last page. The
/// next step feeds the others. Returns how many tokens the row holds then. Memory: none for keys; the next step takes a
/// page, as the one that feeds the whole last page would. Time:   O(n · log pages). The next step copies page - 1
/// tokens more, and feeds page - 1 fewer.
/// @throws as adopt_prefix().
int64_t adopt_to_the_last(PagedCache& cache, int64_t row, const std::vector<int64_t>& prompt);
// ANCHOR_END: contract

}  // namespace kvbook

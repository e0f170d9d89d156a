// The cache that is being checked, and the ways in which the conformance suite looks at it.
#pragma once

#include "common/chapter.h"

namespace kvbook {

/// Chooses it. Before InitGoogleTest, which makes the list of tests. The chapter is copied.
void check_cache(const Chapter& chapter);

/// An empty cache of the kind that was chosen.
std::unique_ptr<KVCache> make_checked_cache(const ModelShape& shape, const CacheOptions& options);

/// The same cache, as a case of the conformance suite, once for each of these.
inline constexpr char kPlain[] = "plain";             // a chunk may come at any time
inline constexpr char kOneByOne[] = "one_by_one";     // a chunk on history never reaches it: chapter 2 promises none
inline constexpr char kFixed[] = "fixed";             // its memory is that of its capacity
inline constexpr char kSliding[] = "sliding_window";  // windows of 1, 3 and 4 tokens, and memory for them alone
inline constexpr char kSlidingThree[] = "sliding_window_3";

}  // namespace kvbook

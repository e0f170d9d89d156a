// The exercises' answers that are caches, as chapters are listed in chapters.h: one list for the conformance suite.
#pragma once

#include <vector>

#include "common/chapter.h"

namespace kvbook {

const std::vector<Chapter>& answer_caches();

/// What the answers that need a number beside CacheOptions are tested with.
inline constexpr int64_t kFirstSlots = 2;  // of buffers that double
inline constexpr int64_t kSpareSlots = 2;  // of those with slots to spare: k

}  // namespace kvbook

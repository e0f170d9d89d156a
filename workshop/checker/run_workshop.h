// The workshop's program: holds one cache to what the chapters promise, and says in words what it found.
#pragma once

#include "common/chapter.h"

namespace kvbook {

/// Its whole main(). `caches` can be chosen by name, the first by default; all have make_cache.
/// Exit status 0 once the report is printed, 1 with --strict if a promise does not hold, 2 for bad input.
int run_workshop(int argc, const char* const* argv, const std::vector<Chapter>& caches);

}  // namespace kvbook

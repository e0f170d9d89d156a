// Every chapter's cache under the conformance suite.
#include "tests/conformance/conformance_suite.h"

namespace kvbook {

std::vector<CacheCase> conformance_cases() { return cache_cases(chapters()); }

}  // namespace kvbook

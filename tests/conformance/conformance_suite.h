// One suite for every cache: whatever it does inside, the model must say the same as without it.
// The suite is compiled once (kvbook_conformance); a program that links it says which caches it is for.
#pragma once

#include "tests/support/caches.h"

namespace kvbook {

/// The caches to hold to the rules. Each program that links the suite defines this: conformance_test for the chapters,
/// broken_caches for those that must fail, workshop for the reader's.
std::vector<CacheCase> conformance_cases();

}  // namespace kvbook

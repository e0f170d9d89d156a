// The conformance suite on everything that must fail it. failures_test runs it, a failure at a time.
#include "tests/conformance/conformance_suite.h"
#include "tests/failures/failures.h"

namespace kvbook {

std::vector<CacheCase> conformance_cases() {
  std::vector<CacheCase> cases;
  for (const Failure& failure : failures()) {
    for (CacheCase& cache_case : cache_cases({failure.chapter})) {
      cache_case.make_model = failure.make_model;
      cache_case.generate = failure.generate;
      cases.push_back(std::move(cache_case));
    }
  }
  return cases;
}

}  // namespace kvbook

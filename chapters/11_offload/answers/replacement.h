// Exercise 11.2: which layers are found in memory, by the rule that says which one gives way.
#pragma once

#include <cstdint>
#include <vector>

namespace kvbook {

// ANCHOR: contract
enum class GivesWay {
  kUsedLongestAgo,  // the usual rule: LRU
  kTheLast,         // the first N - 1 layers stay, and the others share one buffer
  kNeededLast,      // the best choice, which knows the future (L. A. Belady, 1966)
};

/// A model asks for layers 0 to L - 1, `steps` times, and N of them have room. How many of them are found there, a step
/// each; a layer that is not found is brought in, and another one gives way where there is no room. Nothing is there at
/// first. Time: steps·L·N.
/// @throws c10::ValueError unless L, N and `steps` are positive.
std::vector<int64_t> found_in_memory(GivesWay rule, int64_t L, int64_t N, int64_t steps);
// ANCHOR_END: contract

}  // namespace kvbook

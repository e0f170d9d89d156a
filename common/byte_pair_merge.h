// Byte-pair merging: joins neighbours of one piece of text until no merge applies.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace kvbook {

/// The merges of a vocabulary: which two neighbours become which id, and which pair goes first.
class MergeTable {
 public:
  struct Merge {
    int64_t rank;  // the lowest goes first
    int64_t result;
  };
  static constexpr int64_t kLargestId = INT32_MAX;  // two ids make one key of 64 bits

  /// Its rank is the number of merges added before. False, and nothing is added, if the pair is there already.
  bool add(int64_t left, int64_t right, int64_t result);

  /// Null if the two do not merge.
  const Merge* find(int64_t left, int64_t right) const;

 private:
  std::unordered_map<uint64_t, Merge> merges_;
};

/// What merging has cost, counted where the work is done; it grows with every call that it is given to.
struct MergeCost {
  int64_t pairs_looked_up = 0;
  int64_t queue_comparisons = 0;
};

/// Merges the pair of the lowest rank, the leftmost one first, until none is left.
/// Time: n log n for n ids, counted in `cost` when one is given. Memory: n.
std::vector<int64_t> merge_byte_pairs(std::vector<int64_t> ids, const MergeTable& merges, MergeCost* cost = nullptr);

}  // namespace kvbook

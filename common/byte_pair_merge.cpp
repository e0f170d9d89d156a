#include "common/byte_pair_merge.h"

#include <queue>
#include <tuple>

namespace kvbook {
namespace {

uint64_t pair_key(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

/// Two neighbours that could merge, named by the place of the left one.
struct Candidate {
  int64_t rank;
  int64_t place;
};

/// One piece while it is merged: the ids and a doubly linked list over their places. A merge writes its result at
/// the left place and unlinks the right one, so places never move.
class Piece {
 public:
  Piece(std::vector<int64_t> ids, const MergeTable& merges, MergeCost& cost)
      : ids_(std::move(ids)), merges_(merges), cost_(cost), queue_(Later{&cost}) {
    const int64_t count = static_cast<int64_t>(ids_.size());
    for (int64_t place = 0; place < count; ++place) {
      previous_.push_back(place - 1);  // the first one's is kNone
      next_.push_back(place + 1 < count ? place + 1 : kNone);
    }
    for (int64_t place = 0; place < count; ++place) propose(place);
  }

  std::vector<int64_t> merge_all() {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const MergeTable::Merge* merge = merge_at(best.place);
      // A neighbour may have been merged since this pair was proposed; what stands there now was proposed then.
      if (merge == nullptr || merge->rank != best.rank) continue;
      join(best.place, merge->result);
    }
    std::vector<int64_t> merged;
    for (int64_t place = ids_.empty() ? kNone : 0; place != kNone; place = next_[place]) merged.push_back(ids_[place]);
    return merged;
  }

 private:
  static constexpr int64_t kNone = -1;

  struct Later {
    MergeCost* cost;
    bool operator()(const Candidate& a, const Candidate& b) const {
      ++cost->queue_comparisons;
      return std::tie(a.rank, a.place) > std::tie(b.rank, b.place);
    }
  };

  /// The merge of this place and the next; null at the end, and for a place that has been unlinked.
  const MergeTable::Merge* merge_at(int64_t place) {
    if (next_[place] == kNone) return nullptr;
    ++cost_.pairs_looked_up;
    return merges_.find(ids_[place], ids_[next_[place]]);
  }

  void propose(int64_t place) {
    if (const MergeTable::Merge* merge = merge_at(place)) queue_.push({merge->rank, place});
  }

  void join(int64_t left, int64_t result) {
    const int64_t right = next_[left];
    const int64_t after = next_[right];
    ids_[left] = result;
    next_[left] = after;
    if (after != kNone) previous_[after] = left;
    next_[right] = kNone;
    if (previous_[left] != kNone) propose(previous_[left]);
    propose(left);
  }

  std::vector<int64_t> ids_;
  const MergeTable& merges_;
  MergeCost& cost_;
  std::vector<int64_t> previous_, next_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

}  // namespace

bool MergeTable::add(int64_t left, int64_t right, int64_t result) {
  const int64_t rank = static_cast<int64_t>(merges_.size());
  return merges_.emplace(pair_key(left, right), Merge{rank, result}).second;
}

const MergeTable::Merge* MergeTable::find(int64_t left, int64_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::vector<int64_t> merge_byte_pairs(std::vector<int64_t> ids, const MergeTable& merges, MergeCost* cost) {
  MergeCost uncounted;
  return Piece(std::move(ids), merges, cost ? *cost : uncounted).merge_all();
}

}  // namespace kvbook

#include "chapters/08_paged/waste.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>

namespace kvbook {
namespace {

class Service {
 public:
  Service(Reservation& reservation, int64_t slots, const std::vector<Length>& requests)
      : reservation_(reservation), slots_(slots), requests_(requests), held_tokens_(requests.size()) {
    for (size_t request = 0; request < requests.size(); ++request) {
      waiting_.push_back(static_cast<int64_t>(request));
      held_tokens_[request] = requests[request].prompt;
    }
  }

  Usage run() {
    while (!waiting_.empty() || !running_.empty()) {
      start_some();
      TORCH_CHECK_VALUE(!running_.empty(), "request ", waiting_.front(), " does not fit into ", slots_, " slots");
      note_usage();
      ++usage_.steps;
      step();
    }
    for (double* sum : {&usage_.used, &usage_.inner, &usage_.outer, &usage_.kept_free, &usage_.at_once}) {
      *sum /= static_cast<double>(std::max<int64_t>(noted_, 1));
    }
    return usage_;
  }

 private:
  void start_some() {
    if (running_.empty()) starts_ = true;
    while (starts_ && !waiting_.empty() && reservation_.grow(waiting_.front(), held_tokens_[waiting_.front()])) {
      running_.push_back(waiting_.front());
      waiting_.pop_front();
    }
  }

  /// Every request that runs has got a token. Whose it was the last leaves, the others need a slot for it.
  void step() {
    const auto has_finished = [&](int64_t request) {
      const auto& [prompt, answer] = requests_[request];
      if (held_tokens_[request] < prompt + answer - 1) return false;
      reservation_.release(request);
      starts_ = true;
      return true;
    };
    running_.erase(std::remove_if(running_.begin(), running_.end(), has_finished), running_.end());
    for (size_t i = 0; i < running_.size(); ++i) {
      const int64_t request = running_[i];
      while (i < running_.size() && !reservation_.grow(request, held_tokens_[request] + 1)) preempt_last();
      if (i < running_.size()) ++held_tokens_[request];
    }
  }

  void preempt_last() {
    const int64_t last = running_.back();
    TORCH_CHECK_VALUE(running_.size() > 1, "request ", last, " does not fit into ", slots_, " slots");
    reservation_.release(last);
    running_.pop_back();
    waiting_.push_front(last);
    starts_ = false;
    ++usage_.preempted;
    usage_.recomputed += held_tokens_[last];
  }

  bool next_would_fit() {
    const int64_t next = waiting_.front();
    if (!reservation_.grow(next, held_tokens_[next])) return false;
    reservation_.release(next);
    return true;
  }

  void note_usage() {
    if (waiting_.empty()) return;
    int64_t used = 0, held = 0;
    for (const int64_t request : running_) {
      used += held_tokens_[request];
      held += reservation_.held(request);
    }
    const auto share = [&](int64_t part) { return static_cast<double>(part) / static_cast<double>(slots_); };
    usage_.used += share(used);
    usage_.inner += share(held - used);
    (next_would_fit() ? usage_.kept_free : usage_.outer) += share(slots_ - held);
    usage_.at_once += static_cast<double>(running_.size());
    ++noted_;
  }

  Reservation& reservation_;
  int64_t slots_;
  const std::vector<Length>& requests_;
  std::vector<int64_t> held_tokens_;  // a request each: its prompt and what of its answer has been fed
  std::deque<int64_t> waiting_;
  std::vector<int64_t> running_;  // in the order in which they started
  bool starts_ = true;
  Usage usage_;
  int64_t noted_ = 0;
};

}  // namespace

Usage serve(Reservation& reservation, int64_t slots, const std::vector<Length>& requests) {
  return Service(reservation, slots, requests).run();
}

}  // namespace kvbook

#include "chapters/11_offload/answers/replacement.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace kvbook {
namespace {

struct Resident {
  int64_t layer, used_at;
};

// ANCHOR: replacement
/// Which of them gives way, with `layer` about to come in.
std::vector<Resident>::iterator giving_way(GivesWay rule, std::vector<Resident>& there, int64_t layer, int64_t L) {
  const auto greatest = [&](const auto& number) {
    return std::max_element(there.begin(), there.end(),
                            [&](const Resident& a, const Resident& b) { return number(a) < number(b); });
  };
  switch (rule) {
    case GivesWay::kUsedLongestAgo:
      return greatest([](const Resident& r) { return -r.used_at; });
    case GivesWay::kTheLast:
      return greatest([](const Resident& r) { return r.layer; });
    case GivesWay::kNeededLast:
      return greatest([&](const Resident& r) { return (r.layer - layer + L) % L; });  // requests until its own
  }
  TORCH_INTERNAL_ASSERT(false, "no such rule");
}

}  // namespace

std::vector<int64_t> found_in_memory(GivesWay rule, int64_t L, int64_t N, int64_t steps) {
  TORCH_CHECK_VALUE(L > 0 && N > 0 && steps > 0, "L, N and the steps must be positive, got ", L, ", ", N, " and ",
                    steps);
  std::vector<Resident> there;
  std::vector<int64_t> found(steps, 0);
  for (int64_t now = 0; now < steps * L; ++now) {
    const int64_t layer = now % L;
    auto at = std::find_if(there.begin(), there.end(), [&](const Resident& r) { return r.layer == layer; });
    if (at != there.end()) {
      ++found[now / L];
    } else if (static_cast<int64_t>(there.size()) < N) {
      at = there.insert(there.end(), Resident{});
    } else {
      at = giving_way(rule, there, layer, L);
    }
    *at = {layer, now};
  }
  return found;
}
// ANCHOR_END: replacement

}  // namespace kvbook

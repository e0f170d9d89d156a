#include "chapters/10_layer_windows/answers/layer_rings.h"

#include <algorithm>

namespace kvbook {

// ANCHOR: rings
LayerRings::LayerRings(const ModelShape& shape, const std::vector<int64_t>& windows, int64_t spare)
    : context_(shape.context) {
  const auto L = static_cast<size_t>(shape.layers);
  TORCH_CHECK_VALUE(windows.empty() || windows.size() == L, windows.size(), " windows for ", L,
                    " layers: give each one");
  TORCH_CHECK_VALUE(spare >= 0, "there cannot be ", spare, " slots to spare");
  for (size_t layer = 0; layer < L; ++layer) {
    const int64_t asked = windows.empty() ? 0 : windows[layer];
    TORCH_CHECK_VALUE(asked >= 0, "the window of layer ", layer, " must be at least 1, or 0 for a full layer, not ",
                      asked);
    const int64_t window = asked == 0 ? context_ : std::min(asked, context_);
    const auto same = std::find_if(rings_.begin(), rings_.end(), [&](const Ring& r) { return r.window() == window; });
    which_.push_back(same - rings_.begin());
    if (same == rings_.end()) rings_.emplace_back(window, window == context_ ? 0 : spare);
  }
}
// ANCHOR_END: rings

int64_t LayerRings::same_as(int64_t layer) const {
  return std::find(which_.begin(), which_.end(), which_[layer]) - which_.begin();
}

void LayerRings::open(int64_t P, int64_t T, torch::Device device) {
  for (const Ring& ring : rings_) {
    TORCH_CHECK_INDEX(ring.window() < context_ || P + T <= context_, "the full layers have room for ", context_,
                      " tokens, and this would be ", P + T, ": call reset(), or give every layer a window");
  }
  for (Ring& ring : rings_) ring.open(P, T, device);
}

void LayerRings::commit() {
  for (Ring& ring : rings_) ring.commit();
}

void LayerRings::abandon() {
  for (Ring& ring : rings_) ring.abandon();
}

void LayerRings::truncate(int64_t length) {
  for (Ring& ring : rings_) ring.truncate(length);
}

void LayerRings::clear() {
  for (Ring& ring : rings_) ring.clear();
}

int64_t LayerRings::can_give_back(int64_t P) const {
  int64_t most = P;
  for (const Ring& ring : rings_) most = std::min(most, ring.can_give_back(P));
  return most;
}

}  // namespace kvbook

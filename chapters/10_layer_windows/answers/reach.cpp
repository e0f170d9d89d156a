#include "chapters/10_layer_windows/answers/reach.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace kvbook {

// ANCHOR: last_to_hear
int64_t last_to_hear(const std::vector<int64_t>& windows, int64_t position, int64_t tokens) {
  TORCH_CHECK_VALUE(0 <= position && position < tokens, "position ", position, " of ", tokens, " tokens");
  int64_t last = position;
  for (const int64_t window : windows) {
    TORCH_CHECK_VALUE(window >= 0, "a window is at least 1, or 0 for a full layer, not ", window);
    last = window == 0 ? tokens - 1 : std::min(last + window - 1, tokens - 1);
  }
  return last;
}
// ANCHOR_END: last_to_hear

}  // namespace kvbook

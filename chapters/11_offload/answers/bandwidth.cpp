#include "chapters/11_offload/answers/bandwidth.h"

namespace kvbook {

// ANCHOR: formula
double bytes_of_a_layer(const OffloadedStep& step) {
  return 2.0 * static_cast<double>(step.shape.kv_heads * step.tokens * step.vector_bytes);
}

double needed_bandwidth(const OffloadedStep& step) {
  const double seconds_of_a_layer = step.step_seconds / static_cast<double>(step.shape.layers);
  return bytes_of_a_layer(step) / seconds_of_a_layer;
}

double tokens_at(double bandwidth, OffloadedStep step) {
  step.tokens = 1;
  return bandwidth / needed_bandwidth(step);
}
// ANCHOR_END: formula

}  // namespace kvbook

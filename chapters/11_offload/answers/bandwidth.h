// Exercise 11.3: how fast the slow place must be.
#pragma once

#include <cstdint>

#include "common/model_shape.h"

namespace kvbook {

// ANCHOR: bandwidth
/// A decode step of a model all of whose layers pass through two buffers (N = 2), one row.
struct OffloadedStep {
  ModelShape shape;
  int64_t tokens;        // P
  int64_t vector_bytes;  // of one key or one value of one head
  double step_seconds;   // without offloading; every layer takes as long as any other
};

double bytes_of_a_layer(const OffloadedStep& step);      ///< its past, 2·H·P·vector_bytes
double needed_bandwidth(const OffloadedStep& step);      ///< bytes a second from which on nobody waits
double tokens_at(double bandwidth, OffloadedStep step);  ///< P up to which nobody waits; step.tokens does not matter
// ANCHOR_END: bandwidth

}  // namespace kvbook

// How much of the memory holds tokens, when many requests of unequal length share it.
#pragma once

#include <vector>

#include "chapters/08_paged/reservations.h"

namespace kvbook {

// ANCHOR: contract
/// A request, in tokens. The last token of an answer is never fed and needs no slot.
struct Length {
  int64_t prompt, answer;
};

/// Averages over the steps in which somebody waited for room: shares of all slots.
struct Usage {
  double used = 0;         // hold a token
  double inner = 0;        // belong to a request that has not filled them, or never will (internal fragmentation)
  double outer = 0;        // are free, and whoever is next does not fit (external fragmentation)
  double kept_free = 0;    // are free, and whoever is next would fit, but nobody starts after a preemption
  double at_once = 0;      // requests
  int64_t steps = 0;       // until all had their answers
  int64_t preempted = 0;   // times that a request gave its slots back
  int64_t recomputed = 0;  // tokens, for that
};

/// Serves the requests in order, a token each in a step. Whoever is next starts when there is room for its prompt. When
/// one cannot grow, the request that started last gives its slots back and waits in front, and nobody starts until one
/// has finished: as in common/batch_generation. @throws c10::ValueError if a request does not fit alone.
Usage serve(Reservation& reservation, int64_t slots, const std::vector<Length>& requests);
// ANCHOR_END: contract

}  // namespace kvbook

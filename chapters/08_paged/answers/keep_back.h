// Exercise 8.3: who starts leaves some slots free for those who run.
#pragma once

#include "chapters/08_paged/reservations.h"

namespace kvbook {

// ANCHOR: contract
/// As `inner`, which has `slots` in all; but a request that holds nothing gets room only if afterwards at least `spare`
/// slots are held by nobody, or if nobody else holds any. Whoever holds some may grow into all of them.
/// Memory: one number. Time: as inner's; a request that is turned away for the spare slots costs a grow and a release.
/// @throws c10::ValueError if spare is negative.
std::unique_ptr<Reservation> keep_back(std::unique_ptr<Reservation> inner, int64_t slots, int64_t spare);
// ANCHOR_END: contract

}  // namespace kvbook

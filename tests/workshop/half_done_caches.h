// Caches as one writes them on the way, each with one fault.
#pragma once

#include "common/chapter.h"

namespace kvbook {

/// no_offset: its mask forgets the past length. angry_reset: reset() throws a std::runtime_error. throws_an_int and
/// throws_a_novel: update() does. no_constructor: it cannot be made. crashes: update() aborts once four tokens are
/// held. returns_nothing: update() gives undefined tensors. never_ends: update() loops. quits: update() ends the
/// program. forgets: it gives back what came in and keeps nothing.
std::vector<Chapter> half_done_caches();

}  // namespace kvbook

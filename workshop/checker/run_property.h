// Tries one property on the checked cache, in a process of its own: a cache that crashes or never ends takes only that
// one with it.
#pragma once

#include <string>

#include "workshop/checker/property.h"

namespace kvbook {

struct Outcome {
  bool holds = false;
  std::string came = {};     // what came instead, one sentence; empty where it holds
  bool never_ended = false;  // it was stopped when its time was up
};

/// After InitGoogleTest, and before this process has started a thread. What the cache prints is not shown.
/// @throws c10::Error if a test that the property names is not there.
Outcome run_property(const Property& property, int seconds);

/// The same in this process, with all of GoogleTest's output, for a debugger. True if it holds.
bool run_property_here(const Property& property);

}  // namespace kvbook

// What a cache can promise, in a reader's words, and the tests that show it.
#pragma once

#include <string>
#include <vector>

namespace kvbook {

struct Property {
  std::string name;
  std::vector<std::string> tests;  // how GoogleTest's names of the tests that show it begin
  std::string expected;            // what those tests want to see
  std::string hint;                // what a cache needs for it
};

/// The promises that one chapter adds.
struct Promises {
  std::string chapter;  // its folder
  std::string title;
  std::vector<Property> properties;  // in the order in which one would make them hold
};

/// Of chapters 2 to 6, in order. Every property can hold for one and the same cache.
const std::vector<Promises>& all_promises();

}  // namespace kvbook

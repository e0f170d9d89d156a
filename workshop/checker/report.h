// The workshop's report, text of at most 80 columns.
#pragma once

#include <string>
#include <vector>

#include "workshop/checker/property.h"
#include "workshop/checker/run_property.h"

namespace kvbook {

class Report {
 public:
  /// `colour`: with a terminal's escape sequences.
  Report(std::string cache, bool colour) : cache_(std::move(cache)), colour_(colour) {}

  /// The promises of one chapter, an outcome each. Numbers go on from the chapters before.
  std::string section(const Promises& promises, const std::vector<Outcome>& outcomes);

  /// How many hold, and what to do next.
  std::string end() const;

  bool all_hold() const { return holding_ == count_; }

 private:
  std::string painted(const std::string& text, const char* escape) const;

  std::string cache_;  // its name
  bool colour_;
  int count_ = 0, holding_ = 0;
  bool something_written_ = false;
  std::string last_came_;
  std::string next_;  // the first that does not hold, and where to read
  int next_number_ = 0;
};

}  // namespace kvbook

// What the programs say of bad input: one line on standard error, exit status 2.
#pragma once

#include <stdexcept>

namespace kvbook {

/// A fault of the command line or of what it names. The message names the fault and the remedy.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvbook

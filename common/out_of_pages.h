// What a cache throws when its pool of pages is short: an error that a scheduler can act on.
#pragma once

#include <c10/util/Exception.h>

namespace kvbook {

/// Raised by begin() before anything is written. Who frees pages, by truncating a row that can wait, may try again.
class OutOfPages : public c10::IndexError {
 public:
  using c10::IndexError::IndexError;
};

}  // namespace kvbook

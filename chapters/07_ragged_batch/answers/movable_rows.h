// Exercise 7.3: a row that moves to another place.
#pragma once

#include "common/forwarding_cache.h"

namespace kvbook {

// ANCHOR: contract
/// Same answers as `inner`, whose rows have lengths of their own and whose update() returns the keys of a row in the
/// order of their positions, as chapter 7's does.
class MovableRows final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;

  /// Row `to` gets the tokens of row `from` in place of its own, and `from` is empty then. Abandons an open forward.
  /// Memory: a copy of the row until it returns, 2·L·H·P·D·sizeof(dtype), and a mask of P² flags that nobody reads.
  /// Time:   copies 2·P + 1 tokens.
  /// @throws c10::IndexError if a row is not there, or if `from` has no room for one token more: nothing has changed
  /// then.
  void move_row(int64_t from, int64_t to);
};
// ANCHOR_END: contract

}  // namespace kvbook

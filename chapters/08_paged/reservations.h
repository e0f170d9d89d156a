// Three ways to give requests their slots, as books are kept of them: no keys are stored. What each wastes is in
// waste.h.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "chapters/08_paged/page_pool.h"

namespace kvbook {

// ANCHOR: contract
/// Slots of one memory, given to requests by number.
class Reservation {
 public:
  virtual ~Reservation() = default;
  /// Gives `request`, which may hold some already, room for `tokens` in all. False, and nothing changed, if there is
  /// none.
  virtual bool grow(int64_t request, int64_t tokens) = 0;
  virtual void release(int64_t request) = 0;        ///< all that it holds, if anything
  virtual int64_t held(int64_t request) const = 0;  ///< slots that nobody else can use
};

/// One block as long as a text may ever become. A memory of `slots` is cut into these.
/// @throws c10::ValueError unless both are positive, as the others do.
std::unique_ptr<Reservation> reserve_the_most(int64_t slots, int64_t most);

/// One block of the next power of two, by a buddy allocator: a block is half of one twice as large, and halves that
/// are both free are joined again. Who outgrows its block is moved into another one, and holds both for the copy.
/// @throws c10::ValueError if slots is no power of two.
std::unique_ptr<Reservation> reserve_powers_of_two(int64_t slots);

/// Pages, wherever they lie.
std::unique_ptr<Reservation> reserve_pages(int64_t slots, int64_t page);
// ANCHOR_END: contract

}  // namespace kvbook

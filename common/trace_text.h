// A trace drawn for a terminal of 80 columns: a row a forward, a column a slot, and the visible matrix of a chunk.
#pragma once

#include <string>

#include "common/tokenizer.h"
#include "common/trace.h"

namespace kvbook {

/// What happens to one slot in a forward.
enum class SlotState { kEmpty, kHeld, kNew, kEvicted };

/// The slots as the forward sees them: one for each key that it attends over, then those still empty, which are left
/// out where there are several rows. What is not held afterwards is evicted.
std::vector<SlotState> slot_states(const TracedForward& forward);

class TraceText {
 public:
  /// The tokenizer may be null: tokens are shown as ids then. It must outlive this object. `colour`: for a terminal.
  TraceText(const Tokenizer* tokenizer, bool colour) : tokenizer_(tokenizer), colour_(colour) {}

  /// What the signs mean: the first lines. `by_layer`: rows may be about some layers.
  std::string legend(bool by_layer = false) const;

  /// The forward's row, and below it the matrix if more than one token was fed. At most 80 columns.
  std::string row(const TracedForward& forward) const;

 private:
  std::string strip(const std::vector<SlotState>& states) const;
  std::string token(const TracedForward& forward) const;

  const Tokenizer* tokenizer_;
  bool colour_;
};

}  // namespace kvbook

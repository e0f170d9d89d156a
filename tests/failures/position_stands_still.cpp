// A position that the prompt sets and that no decode step moves.
#include "tests/failures/failure.h"
#include "tests/failures/own_position_gpt2.h"

namespace kvbook {
namespace {

class PositionStandsStill final : public OwnPositionGpt2 {
 public:
  using OwnPositionGpt2::OwnPositionGpt2;

 protected:
  // ANCHOR: fault
  void after_forward(int64_t T) override {
    if (position_ == 0) position_ = T;  // wrong: after the prompt it stands still
  }
  // ANCHOR_END: fault
};

}  // namespace

Failure position_stands_still() {
  return {.chapter = broken("04_preallocated", "position_stands_still", "gives every new token the same position"),
          .check = "Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass",
          .symptom = "text that is right for a word or two, then repeats itself or loses its thread",
          .cure = "one counter, in the cache, that moves once a forward: BOOK.md, the contract; chapter 2",
          .make_model = gpt2_of<PositionStandsStill>};
}

}  // namespace kvbook

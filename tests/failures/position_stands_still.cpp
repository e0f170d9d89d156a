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
          .symptom = "fluent for a while, then the text repeats itself",
          .cure = "one counter, in the cache, that moves once a forward: common/kv_cache.h; chapter 2",
          .scene = {.new_tokens = 120},
          .make_model = gpt2_of<PositionStandsStill>};
}

}  // namespace kvbook

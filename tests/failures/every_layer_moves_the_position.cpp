// A position that every layer moves, L times too far.
#include "tests/failures/failure.h"
#include "tests/failures/own_position_gpt2.h"

namespace kvbook {
namespace {

class EveryLayerMovesThePosition final : public OwnPositionGpt2 {
 public:
  using OwnPositionGpt2::OwnPositionGpt2;

 protected:
  // ANCHOR: fault
  void after_layer(int64_t T) override { position_ += T; }  // wrong: L times a forward
  // ANCHOR_END: fault
};

}  // namespace

Failure every_layer_moves_the_position() {
  return {.chapter = broken("04_preallocated", "every_layer_moves_the_position", "moves the position in every layer"),
          .check = "Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass",
          .symptom = "another text after the prompt, and an end far before the context's",
          .cure = "one counter, in the cache, that moves once a forward: common/kv_cache.h; chapter 2",
          .scene = {.new_tokens = 120},
          .make_model = gpt2_of<EveryLayerMovesThePosition>};
}

}  // namespace kvbook

// A generation loop that feeds the token after which it stops.
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

// ANCHOR: fault
Generation generate_and_feed(Gpt2& model, KVCache& cache, const torch::Tensor& input, const GenerateOptions& options) {
  Generation generation = generate(model, cache, input, options);
  const torch::Tensor last = generation.new_ids.narrow(1, generation.new_ids.size(1) - 1, 1);
  model->hidden({last}, cache);  // wrong: nobody asks for the token after the last one
  return generation;
}
// ANCHOR_END: fault

}  // namespace

Failure feeds_the_last_token() {
  return {.chapter = broken("04_preallocated", "feeds_the_last_token", "makes one forward more than there are answers"),
          .check = "Case05GenerationEndsWithTheContext",
          .symptom = "an answer that just fits ends in an error; others cost a forward too many",
          .cure = "prompt + new - 1 positions: choose, and stop before feeding: common/generate.cpp",
          .scene = {.capacity = 54},
          .generate = generate_and_feed};
}

}  // namespace kvbook

#include "common/cached_session.h"

#include "common/generate.h"

namespace kvbook {

Generation CachedSession::generate(const torch::Tensor& input, const GenerateOptions& options) {
  const torch::Tensor fed = not_fed_.defined() ? torch::cat({not_fed_, input}, 1) : input;
  Generation generation = kvbook::generate(model_, *cache_, fed, options);
  not_fed_ = generation.new_ids.narrow(1, generation.new_ids.size(1) - 1, 1);
  return generation;
}

}  // namespace kvbook

#include "chapters/09_int8/tales_ranges.h"

#include <sstream>

#include "chapters/09_int8/calibration.h"
#include "common/drawn_requests.h"
#include "common/input_file.h"
#include "common/progress.h"

namespace kvbook {
namespace {

std::vector<std::vector<int64_t>> hundred_tales(const NamedModel& model) {
  std::vector<std::vector<int64_t>> texts;
  constexpr int64_t kLimit = 1 << 20;  // bytes
  std::istringstream lines(read_text(data_folder() / "tales" / "calibration.txt", kLimit));
  for (std::string line; std::getline(lines, line);) {
    texts.push_back(model.tokenizer->encode(line));
    texts.back().resize(std::min<size_t>(texts.back().size(), model.checkpoint.config.context));
  }
  return texts;
}

std::vector<std::vector<int64_t>> hundred_drawn(const Gpt2Config& config) {
  std::mt19937_64 draw(100);
  std::vector<std::vector<int64_t>> texts;
  for (int i = 0; i < 100; ++i) {
    texts.push_back(drawn_ids(draw, std::min<int64_t>(64, config.context), config.vocabulary));
  }
  return texts;
}

}  // namespace

KeyValueRanges tales_ranges(const NamedModel& model) {
  const Progress progress("measuring the ranges of keys and values", 0);
  Gpt2 gpt2(model.checkpoint);
  return measure_ranges(gpt2, model.tokenizer ? hundred_tales(model) : hundred_drawn(model.checkpoint.config));
}

}  // namespace kvbook

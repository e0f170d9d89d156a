// Lengths of prompts and answers, drawn so that every machine draws the same.
#pragma once

#include <cstdint>
#include <random>

namespace kvbook {

/// A log-normal length, as those of prompts and answers often are: `middle` is the median, `spread` the standard
/// deviation of its logarithm; what falls outside least to most is moved there.
int64_t drawn_length(std::mt19937_64& draw, double middle, double spread, int64_t least, int64_t most);

}  // namespace kvbook

// Prompts, and lengths of prompts and answers, drawn so that every machine draws the same.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace kvbook {

/// So many ids, each from 0 to vocabulary - 1.
std::vector<int64_t> drawn_ids(std::mt19937_64& draw, int64_t tokens, int64_t vocabulary);

/// A log-normal length, as those of prompts and answers often are: `middle` is the median, `spread` the standard
/// deviation of its logarithm; what falls outside least to most is moved there.
int64_t drawn_length(std::mt19937_64& draw, double middle, double spread, int64_t least, int64_t most);

}  // namespace kvbook

#include "common/drawn_requests.h"

#include <algorithm>
#include <cmath>

namespace kvbook {

std::vector<int64_t> drawn_ids(std::mt19937_64& draw, int64_t tokens, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int64_t>(draw() % vocabulary));
  return ids;
}

int64_t drawn_length(std::mt19937_64& draw, double middle, double spread, int64_t least, int64_t most) {
  // Box and Muller, since std::normal_distribution gives other numbers with other libraries.
  const auto uniform = [&] { return (static_cast<double>(draw() >> 11) + 0.5) * 0x1.0p-53; };
  const double first = uniform(), second = uniform();
  const double normal = std::sqrt(-2 * std::log(first)) * std::cos(2 * M_PI * second);
  return std::clamp(static_cast<int64_t>(std::lround(middle * std::exp(spread * normal))), least, most);
}

}  // namespace kvbook

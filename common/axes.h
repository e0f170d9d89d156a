// The axes of keys, values and queries: [B, H, T, D] for new tokens, [B, H, S, D] for what a cache returns.
#pragma once

#include <cstdint>

namespace kvbook {

inline constexpr int64_t kRowAxis = 0;   // B
inline constexpr int64_t kHeadAxis = 1;  // H
inline constexpr int64_t kSeqAxis = 2;   // T, S, C or W
inline constexpr int64_t kSizeAxis = 3;  // D

}  // namespace kvbook

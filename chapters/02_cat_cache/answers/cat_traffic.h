// Exercise 2.3: what torch::cat writes, counted instead of measured.
#pragma once

#include <cstdint>

namespace kvbook {

// ANCHOR: cat_traffic
/// Bytes that chapter 2's cache writes for a prompt fed whole and then one token a forward, until it holds `held`
/// tokens: each forward writes all it then holds. 1 <= prompt <= held.
/// The sum prompt + (prompt + 1) + ... + held; with a prompt of one token held·(held + 1)/2.
constexpr int64_t bytes_written_by_cat(int64_t prompt, int64_t held, int64_t bytes_per_token) {
  return (prompt + held) * (held - prompt + 1) / 2 * bytes_per_token;
}
// ANCHOR_END: cat_traffic

}  // namespace kvbook

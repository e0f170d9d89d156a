// Exercise 10.1: how far news can travel through layers of different windows.
#pragma once

#include <cstdint>
#include <vector>

namespace kvbook {

// ANCHOR: reach
/// The last of `tokens` positions whose logits can move when the token at `position` changes. `windows`: a layer each,
/// 0 for a full one.
/// @throws c10::ValueError unless 0 <= position < tokens and no window is negative.
int64_t last_to_hear(const std::vector<int64_t>& windows, int64_t position, int64_t tokens);
// ANCHOR_END: reach

}  // namespace kvbook

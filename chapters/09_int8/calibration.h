// The ranges of a model's keys and values, measured before they are needed.
#pragma once

#include "common/gpt2.h"
#include "common/key_value_ranges.h"

namespace kvbook {

/// The greatest key and value, without its sign, of each layer, head and channel, over all tokens of all texts.
/// Each text is fed in one forward. @throws as Gpt2::hidden, c10::ValueError if there is no text.
KeyValueRanges measure_ranges(Gpt2& model, const std::vector<std::vector<int64_t>>& texts);

}  // namespace kvbook

// Exercise 4.3: how many sequences fit into a given memory.
#pragma once

#include "common/model_shape.h"

namespace kvbook {

// ANCHOR: contract
/// Sequences of `tokens` tokens whose keys and values fit beside the weights. All sizes in bytes; activations and what
/// the system needs are the caller's to subtract. 0 where not one fits.
/// @throws c10::ValueError unless tokens and bytes_per_element are positive and the bytes not negative.
int64_t sequences_that_fit(int64_t memory_bytes, int64_t weight_bytes, const ModelShape& shape, int64_t tokens,
                           int64_t bytes_per_element);
// ANCHOR_END: contract

}  // namespace kvbook

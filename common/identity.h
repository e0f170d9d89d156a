// When the same tokens are promised: tier 1 of the book's three.
#pragma once

#include <c10/core/ScalarType.h>

namespace kvbook {

/// True for float32 and float64. In bfloat16, products of another size round differently, and tokens with a small gap
/// may differ.
inline bool promises_same_tokens(c10::ScalarType dtype) { return dtype == c10::kFloat || dtype == c10::kDouble; }

}  // namespace kvbook

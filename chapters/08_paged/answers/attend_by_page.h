// Exercise 8.4: attention for one query that reads a row's pages where they lie.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace kvbook {

// ANCHOR: contract
/// softmax(query · keysᵀ / √D) · values, for one query of one row that sees the row's first `length` tokens.
/// query [H, D]; keys, values [H, pool slots, D], of one layer; pages: the row's block table, of pages of `page` slots
/// -> [H, D]. No slot is read but those of the `length` tokens, so whatever lies in the others cannot leak.
/// Memory: no key and no value is copied; about 3·H·(page + D) numbers of query's dtype.
/// Time:   2·H·length·D multiply-adds, and 2·H·D operations a page to rescale and add; sixteen calls a page.
/// @throws c10::ValueError on other shapes, unless page and length are at least 1 and the pool consists of whole pages,
/// if the table is too short for `length`, and if a page of it that is to be read is not in the pool.
torch::Tensor attend_by_page(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                             const std::vector<int64_t>& pages, int64_t page, int64_t length);
// ANCHOR_END: contract

}  // namespace kvbook

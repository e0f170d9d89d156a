#include "chapters/08_paged/answers/attend_by_page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.h"

namespace kvbook {
namespace {

constexpr int64_t kPlaceAxis = 1;  // of [H, pool slots, D]

void check_attend_by_page(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                          const std::vector<int64_t>& pages, int64_t page, int64_t length) {
  TORCH_CHECK_VALUE(query.defined() && query.dim() == 2, "query is not [H, D]");
  TORCH_CHECK_VALUE(keys.defined() && keys.dim() == 3, "keys are not [H, pool slots, D]");
  const int64_t slots = keys.size(kPlaceAxis);
  check_shape(keys, {query.size(0), slots, query.size(1)}, "keys");
  check_shape(values, keys.sizes(), "values");
  TORCH_CHECK_VALUE(page >= 1, "a page has room for at least 1 token, not ", page);
  TORCH_CHECK_VALUE(slots % page == 0, "a pool of ", slots, " slots does not consist of pages of ", page);
  TORCH_CHECK_VALUE(length >= 1, "a query sees at least 1 token, not ", length);
  const auto there = static_cast<int64_t>(pages.size()), needed = (length - 1) / page + 1;
  TORCH_CHECK_VALUE(needed <= there, length, " tokens lie in ", needed, " pages, and the table has ", there);
  for (int64_t i = 0; i < needed; ++i) {
    TORCH_CHECK_VALUE(0 <= pages[i] && pages[i] < slots / page, "page ", pages[i], " is not in a pool of ",
                      slots / page);
  }
}

}  // namespace

// ANCHOR: attend_by_page
torch::Tensor attend_by_page(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                             const std::vector<int64_t>& pages, int64_t page, int64_t length) {
  check_attend_by_page(query, keys, values, pages, page, length);
  const int64_t H = query.size(0), D = query.size(1);
  const torch::Tensor scaled = (query / std::sqrt(static_cast<double>(D))).unsqueeze(1);  // [H, 1, D]
  // Of all pages so far:
  torch::Tensor greatest = torch::full({H, 1, 1}, -std::numeric_limits<double>::infinity(), query.options());
  const torch::Tensor sum = torch::zeros({H, 1, 1}, query.options());    // of exp(score - greatest)
  const torch::Tensor mixed = torch::zeros({H, 1, D}, query.options());  // of exp(score - greatest) · value

  for (int64_t done = 0; done < length; done += page) {
    const int64_t first = pages[done / page] * page, n = std::min(page, length - done);
    const torch::Tensor some_keys = keys.narrow(kPlaceAxis, first, n);  // views
    const torch::Tensor some_values = values.narrow(kPlaceAxis, first, n);

    const torch::Tensor scores = at::bmm(scaled, some_keys.transpose(1, 2));  // [H, 1, n]
    const torch::Tensor greatest_now = at::maximum(greatest, scores.amax(-1, /*keepdim=*/true));
    const torch::Tensor rescale = (greatest - greatest_now).exp();  // 0 at the first page
    const torch::Tensor weights = (scores - greatest_now).exp();    // at most 1
    sum.mul_(rescale).add_(weights.sum(-1, /*keepdim=*/true));
    mixed.mul_(rescale).add_(at::bmm(weights, some_values));
    greatest = greatest_now;
  }
  return (mixed / sum).squeeze(1);
}
// ANCHOR_END: attend_by_page

}  // namespace kvbook

#include "common/ids.h"

#include <fmt/ranges.h>

namespace kvbook {

torch::Tensor to_row(const std::vector<int64_t>& ids) { return torch::tensor(ids, torch::kInt64).unsqueeze(0); }

std::vector<int64_t> to_ids(const torch::Tensor& row) {
  TORCH_CHECK_VALUE(row.dim() == 2 && row.size(0) == 1, "expected one row of ids, got shape ", row.sizes());
  const torch::Tensor ids = row[0].cpu().contiguous();
  return {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel()};
}

std::string joined(const std::vector<int64_t>& ids) { return fmt::format("{}", fmt::join(ids, ", ")); }

}  // namespace kvbook

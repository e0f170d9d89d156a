#include "chapters/07_ragged_batch/answers/movable_rows.h"

#include "common/axes.h"
#include "common/ids.h"

namespace kvbook {

// ANCHOR: move_row
void MovableRows::move_row(int64_t from, int64_t to) {
  const int64_t P = length(from), L = shape().layers;
  if (from == to) return;
  const auto step = [](int64_t row, int64_t T) {
    return Step{.ids = torch::zeros({1, T}, torch::kInt64), .rows = to_row({row})[0]};
  };
  std::vector<torch::Tensor> keys, values;  // a layer each, [1, H, P, D]
  if (P > 0) {                              // a look at the row: a forward that is given up
    const torch::Tensor zero = torch::zeros({1, shape().kv_heads, 1, shape().head_size}, options());
    begin(step(from, 1));
    for (int64_t layer = 0; layer < L; ++layer) {
      const KeyValues kv = update(layer, zero, zero);
      keys.push_back(kv.keys.narrow(kSeqAxis, 0, P).clone());
      values.push_back(kv.values.narrow(kSeqAxis, 0, P).clone());
    }
    abandon();
  }
  truncate(to, 0);
  if (P > 0) {  // what was seen is fed to the other one
    begin(step(to, P));
    for (int64_t layer = 0; layer < L; ++layer) update(layer, keys[layer], values[layer]);
    commit();
  }
  truncate(from, 0);
}
// ANCHOR_END: move_row

}  // namespace kvbook

#include "chapters/11_offload/answers/spread_offloaded_cache.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "chapters/03_masked_offsets/causal_mask.h"

namespace kvbook {
namespace {

constexpr int64_t kNobody = -1;

}  // namespace

// ANCHOR: layers
SpreadOffloadedCache::SpreadOffloadedCache(const ModelShape& shape, int64_t capacity, int64_t resident_layers,
                                           std::string folder)
    : KVCache(shape), capacity_(capacity), folder_(std::move(folder)), shared_(kNobody) {
  TORCH_CHECK_VALUE(capacity > 0, "the capacity must be at least 1, not ", capacity);
  TORCH_CHECK_VALUE(resident_layers > 0, "at least one layer must have room in memory, not ", resident_layers);
  if (folder_.empty()) folder_ = std::filesystem::temp_directory_path();
  in_memory_ = std::min(resident_layers, shape.layers);
  leaving_ = in_memory_ == shape.layers ? 0 : shape.layers - in_memory_ + 1;
  int64_t in_file = 0, stay = 0;
  for (int64_t layer = 0; layer < shape.layers; ++layer) place_.push_back(leaves(layer) ? in_file++ : stay++);
}

/// The last layer, and every L / M-th before it.
bool SpreadOffloadedCache::leaves(int64_t layer) const {
  return (shape().layers - 1 - layer) * leaving_ % shape().layers < leaving_;
}

int64_t SpreadOffloadedCache::leaving_from(int64_t layer) const {
  while (layer < shape().layers && !leaves(layer)) ++layer;
  return layer;
}

torch::Tensor SpreadOffloadedCache::buffer_of(int64_t layer) const {
  return buffers_[leaves(layer) ? in_memory_ - 1 : place_[layer]];  // [C, 2, B, H, D]
}
// ANCHOR_END: layers

SpreadOffloadedCache::~SpreadOffloadedCache() { queue_.drop_and_forget(); }

// ANCHOR: update
KeyValues SpreadOffloadedCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  if (!buffers_.defined()) allocate();
  const int64_t P = length(), T = new_tokens();
  if (leaves(layer)) {
    if (shared_ != layer) fetch(layer, P);  // the one before it is a neighbour, and has only now left the buffer
    wait();
  }
  const torch::Tensor slots = buffer_of(layer), fresh = slots.narrow(0, P, T);
  fresh.select(1, 0).copy_(key.permute({2, 0, 1, 3}));  // [B, H, T, D] -> [T, B, H, D]
  fresh.select(1, 1).copy_(value.permute({2, 0, 1, 3}));
  if (leaves(layer)) {
    store_new_tokens(layer);
  } else {  // nobody looks into the shared buffer any more
    const int64_t next = leaving_from(layer + 1);
    if (next < shape().layers && shared_ != next) {
      fetch(next, P);
      fetched_ahead_.push_back(next);
    }
  }
  const torch::Tensor seen = slots.narrow(0, 0, P + T).permute({1, 2, 3, 0, 4});  // [2, B, H, P + T, D]
  return {seen[0], seen[1], visible_};
}

void SpreadOffloadedCache::on_commit() {
  wait();  // a token counts when it is where it will be looked for
  if (leaving_ > 0) fetch(leaving_from(0), length() + new_tokens());
}
// ANCHOR_END: update

void SpreadOffloadedCache::on_abandon() {
  queue_.drop_and_forget();
  if (length() == 0) return release();
  if (leaving_ > 0) fetch(leaving_from(0), length());  // what lies in the buffer may be half of it
}

void SpreadOffloadedCache::fetch(int64_t layer, int64_t tokens) {
  shared_ = layer;
  if (tokens == 0) return;
  const int64_t bytes = tokens * static_cast<int64_t>(buffers_[0][0].nbytes());
  void* to = buffer_of(layer).data_ptr();
  queue_.add([this, offset = offset_of(layer, 0), to, bytes] { file_->read(offset, to, bytes); });
  bytes_read_ += bytes;
}

void SpreadOffloadedCache::store_new_tokens(int64_t layer) {
  const torch::Tensor fresh = buffer_of(layer).narrow(0, length(), new_tokens());
  const auto bytes = static_cast<int64_t>(fresh.nbytes());
  queue_.add([this, offset = offset_of(layer, length()), from = fresh.data_ptr(), bytes] {
    file_->write(offset, from, bytes);
  });
}

void SpreadOffloadedCache::wait() {
  try {
    queue_.wait();
  } catch (...) {
    shared_ = kNobody;
    throw;
  }
}

void SpreadOffloadedCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= capacity_, "the cache holds ", P, " of ", capacity_, " tokens and has no room for ", T,
                    " more: give it a larger capacity");
  fetched_ahead_.clear();
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

void SpreadOffloadedCache::allocate() {
  const std::vector<int64_t> size = {in_memory_, capacity_, 2, rows(), shape().kv_heads, shape().head_size};
  const torch::Tensor buffers = torch::empty(size, options());
  if (leaving_ > 0) {
    const int64_t in_file = leaving_ * static_cast<int64_t>(buffers[0].nbytes());
    queue_.add([this, in_file] { file_ = std::make_unique<SpillFile>(folder_, in_file); });  // there, for SIGXFSZ
    wait();
  }
  buffers_ = buffers;
}

void SpreadOffloadedCache::release() {
  queue_.drop_and_forget();
  shared_ = kNobody;
  buffers_.reset();
  file_.reset();
}

int64_t SpreadOffloadedCache::offset_of(int64_t layer, int64_t position) const {
  return (place_[layer] * capacity_ + position) * static_cast<int64_t>(buffers_[0][0].nbytes());
}

void SpreadOffloadedCache::reset() {
  KVCache::reset();
  release();
}

int64_t SpreadOffloadedCache::bytes() const { return buffers_.defined() ? buffers_.nbytes() : 0; }

std::vector<int64_t> SpreadOffloadedCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (buffers_.defined()) positions.resize(capacity_, kEmptySlot);
  return positions;
}

}  // namespace kvbook

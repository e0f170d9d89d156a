#include "chapters/11_offload/offloaded_cache.h"

#include <filesystem>

#include "chapters/03_masked_offsets/causal_mask.h"
#include "common/timings.h"

namespace kvbook {
namespace {

constexpr int64_t kNoLayer = -1;
constexpr int64_t kInTurn = 2;  // buffers through which the other layers pass: one computes, one is fetched

}  // namespace

// ANCHOR: layers
OffloadedCache::OffloadedCache(const ModelShape& shape, int64_t capacity, int64_t resident_layers, std::string folder)
    : KVCache(shape), capacity_(capacity), buffers_in_all_(std::min(resident_layers, shape.layers)), folder_(folder) {
  TORCH_CHECK_VALUE(capacity > 0, "the capacity must be at least 1, not ", capacity);
  TORCH_CHECK_VALUE(resident_layers > 0, "at least one layer must have room in memory, not ", resident_layers);
  if (folder_.empty()) {
    std::error_code fault;
    folder_ = std::filesystem::temp_directory_path(fault).string();
    TORCH_CHECK(!fault, "there is no folder for temporary files (", fault.message(),
                "): set TMPDIR, or name a folder (--spill)");
  }
  const bool all_stay = buffers_in_all_ == shape.layers;
  staying_ = all_stay ? shape.layers : std::max<int64_t>(0, buffers_in_all_ - kInTurn);
  in_buffer_.assign(buffers_in_all_, kNoLayer);
}

int64_t OffloadedCache::buffer_of(int64_t layer) const {
  return stays(layer) ? layer : staying_ + (layer - staying_) % (buffers_in_all_ - staying_);
}
// ANCHOR_END: layers

OffloadedCache::~OffloadedCache() { queue_.drop_and_forget(); }

// ANCHOR: update
KeyValues OffloadedCache::update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) {
  check_update(layer, key, value);
  check_not_failed();
  if (!buffers_.defined()) allocate();
  const int64_t P = length(), T = new_tokens();
  if (!stays(layer)) {
    const double start = steady_seconds();
    fetch(layer, P);  // unless it is there, or on its way
    wait(start);      // what the other thread could not do is thrown here
  }
  const torch::Tensor slots = buffers_[buffer_of(layer)];  // [C, 2, B, H, D]
  const torch::Tensor fresh = slots.narrow(0, P, T);
  fresh.select(1, 0).copy_(key.permute({2, 0, 1, 3}));  // [B, H, T, D] -> [T, B, H, D]
  fresh.select(1, 1).copy_(value.permute({2, 0, 1, 3}));
  if (!stays(layer)) store_new_tokens(layer);

  const int64_t next = layer + 1;
  const bool free = next < shape().layers && !stays(next) && buffer_of(next) != buffer_of(layer);
  if (free) fetch(next, P);                                                       // while this layer computes
  const torch::Tensor seen = slots.narrow(0, 0, P + T).permute({1, 2, 3, 0, 4});  // [2, B, H, P + T, D]
  return {seen[0], seen[1], visible_};
}
// ANCHOR_END: update

// ANCHOR: commit
void OffloadedCache::on_commit() {
  check_not_failed();
  wait(steady_seconds());  // a token counts when it is where it will be looked for
  if (staying_ < shape().layers) fetch(staying_, length() + new_tokens());
}

void OffloadedCache::on_abandon() {
  failed_ = false;
  queue_.drop_and_forget();
  std::fill(in_buffer_.begin(), in_buffer_.end(), kNoLayer);  // or half of it, or more than is committed
  if (length() == 0) return release();
  if (staying_ < shape().layers) fetch(staying_, length());
}
// ANCHOR_END: commit

// ANCHOR: transfers
void OffloadedCache::fetch(int64_t layer, int64_t tokens) {
  const int64_t buffer = buffer_of(layer), bytes = tokens * buffers_[0][0].nbytes();
  if (in_buffer_[buffer] == layer) return;
  in_buffer_[buffer] = layer;
  if (tokens == 0) return;
  void* to = buffers_[buffer].data_ptr();
  queue_.add([this, offset = offset_of(layer, 0), to, bytes] { file_->read(offset, to, bytes); });
  transfers_.bytes_read += bytes;
}

void OffloadedCache::store_new_tokens(int64_t layer) {
  const torch::Tensor fresh = buffers_[buffer_of(layer)].narrow(0, length(), new_tokens());
  const auto bytes = static_cast<int64_t>(fresh.nbytes());
  queue_.add([this, offset = offset_of(layer, length()), from = fresh.data_ptr(), bytes] {
    file_->write(offset, from, bytes);
  });
  transfers_.bytes_written += bytes;
}

/// `since`: before the job was added, since the other thread may take this one's core to run it.
void OffloadedCache::wait(double since) {
  try {
    queue_.wait();
  } catch (...) {
    failed_ = true;
    throw;
  }
  transfers_.seconds_waited += steady_seconds() - since;
}

/// Whoever catches an error and goes on in the same forward would commit what is not there.
void OffloadedCache::check_not_failed() const {
  TORCH_CHECK(!failed_, "a transfer of this forward has failed: abandon it, and try again or reset()");
}
// ANCHOR_END: transfers

void OffloadedCache::on_begin(const Step& step) {
  const int64_t P = length(), T = step.ids.size(1);
  TORCH_CHECK_INDEX(P + T <= capacity_, "the cache holds ", P, " of ", capacity_, " tokens and has no room for ", T,
                    " more: give it a larger capacity");
  visible_.reset();
  if (T > 1) visible_ = causal_mask(P, T, step.ids.device());
}

// ANCHOR: memory
void OffloadedCache::allocate() {
  TORCH_CHECK_VALUE(options().device().is_cpu(), "a key on ", options().device(),
                    ": this cache moves bytes of the processor's memory only");
  const std::vector<int64_t> size = {buffers_in_all_, capacity_, 2, rows(), shape().kv_heads, shape().head_size};
  const torch::Tensor buffers = torch::empty(size, options());
  const int64_t bytes_of_layer = buffers[0].nbytes(), in_file = (shape().layers - staying_) * bytes_of_layer;
  if (in_file > 0) {
    queue_.add([this, in_file] { file_ = std::make_unique<SpillFile>(folder_, in_file); });  // there, for SIGXFSZ
    wait(steady_seconds());
  }
  buffers_ = buffers;
}

void OffloadedCache::release() {
  queue_.drop_and_forget();
  std::fill(in_buffer_.begin(), in_buffer_.end(), kNoLayer);
  buffers_.reset();
  file_.reset();
}

int64_t OffloadedCache::offset_of(int64_t layer, int64_t position) const {
  return ((layer - staying_) * capacity_ + position) * static_cast<int64_t>(buffers_[0][0].nbytes());
}

void OffloadedCache::reset() {
  KVCache::reset();
  release();
}

int64_t OffloadedCache::bytes() const { return buffers_.defined() ? buffers_.nbytes() : 0; }

int64_t OffloadedCache::file_bytes() const {
  return file_ ? (shape().layers - staying_) * static_cast<int64_t>(buffers_[0].nbytes()) : 0;
}

std::vector<int64_t> OffloadedCache::slots(int64_t row) const {
  std::vector<int64_t> positions = KVCache::slots(row);
  if (buffers_.defined()) positions.resize(capacity_, kEmptySlot);
  return positions;
}
// ANCHOR_END: memory

}  // namespace kvbook

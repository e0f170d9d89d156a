// What a reader must know of a machine to repeat a measurement on it.
#pragma once

#include <cstdint>
#include <string>

namespace kvbook {

struct Machine {
  std::string cpu;
  int64_t last_level_cache = 0;  // bytes; 0 where the system does not tell
  std::string libtorch, blas;
  std::string compiler, flags, build_type;
  std::string commit;  // of the source tree now; "unknown" outside a git checkout; "-dirty" with uncommitted changes
};

Machine describe_machine();

/// The greatest rate, in bytes a second, at which this process reads memory with `threads` threads (the number that
/// at::set_num_threads was given): the best of several passes of two plain sums, one of our own and LibTorch's, over a
/// buffer of twice the last-level cache, but 256 MiB to 1 GiB. Takes about a second.
double measure_read_bandwidth(int threads);

}  // namespace kvbook

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
  std::string commit;  // "unknown" outside a git checkout; ends in "-dirty" with uncommitted changes
};

Machine describe_machine();

/// The greatest rate, in bytes a second, at which this process reads memory with `threads` threads: the best of several
/// passes of plain vectorised sums over a buffer of at least twice the last-level cache (256 MiB to 1 GiB).
/// Takes about a second.
double measure_read_bandwidth(int threads);

}  // namespace kvbook

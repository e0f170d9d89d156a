#include "common/machine.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "build_info.h"
#include "common/timings.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace kvbook {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// The first line that a command prints; empty if it fails.
std::string first_line_of(const std::string& command) {
  std::string line;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return line;
  char buffer[256];
  if (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) line = buffer;
  if (pclose(pipe) != 0) return "";
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

std::string cpu_name() {
#ifdef __APPLE__
  return first_line_of("sysctl -n machdep.cpu.brand_string");
#else
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
#endif
}

int64_t last_level_cache() {
#ifdef __APPLE__
  int64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.l2cachesize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#elif defined(_SC_LEVEL3_CACHE_SIZE)
  return std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
  return 0;
#endif
}

/// "BLAS_INFO=mkl" somewhere in LibTorch's own description of its build.
std::string blas_name() {
  const std::string config = at::show_config(), key = "BLAS_INFO=";
  const size_t at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const size_t begin = at + key.size();
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
}

std::string commit() {
  std::string folder;  // between single quotes in the shell, where only a quote needs care
  for (const char c : std::string(kSourceFolder)) folder += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string found =
      first_line_of(fmt::format("git -C '{}' describe --always --dirty --abbrev=12 2>/dev/null", folder));
  return found.empty() ? "unknown" : found;
}

/// Sums [begin, end) in several independent lanes, which compilers that vectorise at this -O keep in vector registers.
uint64_t sum_of(const uint64_t* begin, const uint64_t* end) {
  constexpr int kLanes = 16;
  uint64_t lanes[kLanes] = {};
  for (; begin + kLanes <= end; begin += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += begin[lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

Machine describe_machine() {
  return {.cpu = cpu_name(),
          .last_level_cache = last_level_cache(),
          .libtorch = TORCH_VERSION,
          .blas = blas_name(),
          .compiler = kCompiler,
          .flags = kCompilerFlags,
          .build_type = kBuildType,
          .commit = commit()};
}

double measure_read_bandwidth(int threads) {
  constexpr int kPasses = 6;
  const int64_t bytes = std::clamp<int64_t>(2 * last_level_cache(), 256 * kMiB, 1024 * kMiB);
  constexpr int64_t kTwoOnes = 0x3F8000003F800000;  // 1.0F twice: read as floats, no slow denormals
  const torch::Tensor words = torch::full({bytes / 8}, kTwoOnes, torch::kInt64);
  const torch::Tensor floats = words.view(torch::kFloat32);
  const auto* data = reinterpret_cast<const uint64_t*>(words.data_ptr<int64_t>());

  const auto own_sum = [&] {
    std::vector<std::thread> readers;
    std::vector<uint64_t> sums(threads);
    const int64_t share = bytes / 8 / threads;
    for (int i = 0; i < threads; ++i) {
      readers.emplace_back([&, i] { sums[i] = sum_of(data + i * share, data + (i + 1) * share); });
    }
    for (std::thread& reader : readers) reader.join();
    TORCH_INTERNAL_ASSERT(sums[0] > 0);  // the sums are used, so the compiler cannot drop them
  };
  const auto torch_sum = [&] { floats.sum(); };

  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const std::function<void()>& read : {std::function<void()>(own_sum), std::function<void()>(torch_sum)}) {
      const double start = steady_seconds();
      read();
      best = std::max(best, static_cast<double>(bytes) / (steady_seconds() - start));
    }
  }
  return best;
}

}  // namespace kvbook

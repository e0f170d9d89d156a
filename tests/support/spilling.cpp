#include "tests/support/spilling.h"

#include <cstdlib>

namespace kvbook {

void feed_ones(KVCache& cache, int64_t T, const std::function<void(int64_t layer)>& after) {
  cache.begin({torch::zeros({1, T}, torch::kInt64)});
  const torch::Tensor key = torch::ones({1, kFiveLayers.kv_heads, T, kFiveLayers.head_size});
  for (int64_t layer = 0; layer < cache.shape().layers; ++layer) {
    cache.update(layer, key, key);
    if (after) after(layer);
  }
  cache.commit();
}

TemporaryFolder::TemporaryFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "kvbook-test-XXXXXX").string();
  TORCH_CHECK(mkdtemp(path.data()) != nullptr, "cannot make a folder like ", path);
  path_ = path;
}

int TemporaryFolder::descriptor() const {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.rfind(path_.string(), 0) == 0) return std::stoi(entry.path().filename());
  }
  return -1;
}

FileSizeLimit::FileSizeLimit(rlim_t bytes) {
  getrlimit(RLIMIT_FSIZE, &before_);
  rlimit less = before_;
  less.rlim_cur = bytes;
  TORCH_CHECK(setrlimit(RLIMIT_FSIZE, &less) == 0, "cannot set a limit of ", bytes, " bytes");
}

}  // namespace kvbook

// What the tests of caches that use a file share: a folder to look into, a disk that says no, and small forwards.
#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <functional>

#include "common/kv_cache.h"

namespace kvbook {

inline constexpr ModelShape kFiveLayers = {
    .layers = 5, .heads = 2, .kv_heads = 2, .head_size = 4, .context = 16, .vocabulary = 16};
inline constexpr int64_t kFiveLayersToken = 2 * 2 * 4 * 4;  // bytes of a token in one layer, float32: 2·H·D·4

/// One forward of a cache of that width, with keys that nobody looks at; `after` is called after each update.
void feed_ones(KVCache& cache, int64_t T, const std::function<void(int64_t layer)>& after = {});

/// An empty folder that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  bool empty() const { return std::filesystem::is_empty(path_); }
  int descriptor() const;  ///< of the file without a name that this process has open there; -1: none

 private:
  std::filesystem::path path_;
};

/// No file of this process may be longer, until the end of the scope: as a disk that takes no more.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes);
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace kvbook

// A file that is read without trusting it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvbook {

/// An open regular file. A folder, a pipe or a device is refused, because reading one may hang or never end.
/// Not thread-safe: every read moves the one position.
class InputFile {
 public:
  /// @throws c10::ValueError naming the file if it is missing, not a regular file, or cannot be opened.
  explicit InputFile(std::filesystem::path path);

  int64_t size() const { return size_; }  ///< bytes, when the file was opened

  /// Reads `count` bytes that begin at `offset`. @throws c10::ValueError if the file ends before.
  void read(int64_t offset, int64_t count, void* into);

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  int64_t size_ = 0;
};

/// The whole file as a string. @throws c10::ValueError as above, or if it has more than `limit` bytes; it is not read
/// then.
std::string read_text(const std::filesystem::path& path, int64_t limit);

}  // namespace kvbook

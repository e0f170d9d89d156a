// Reads a .safetensors file that it does not trust.
// Format: 8 bytes little-endian header length N, N bytes of JSON, then the tensors' bytes, without gap or overlap.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvbook {

/// The description of a file whose header has been checked as a whole; each load opens the file and reads the one
/// tensor's bytes. Holds the path and the header, no data. Safe to use from several threads.
/// Time: the header's size to open, the tensor's size to load.
class SafetensorsFile {
 public:
  struct Entry {
    std::string dtype;           // as in the file: "F32", "BF16", ...
    std::vector<int64_t> shape;  // checked: dtype and shape give exactly end - begin bytes
    int64_t begin = 0;           // bytes, from the start of the data
    int64_t end = 0;
  };

  /// @throws c10::ValueError naming the file and the fault. Allocates in proportion to the header only, once its
  /// length is checked against the size of the file and the format's limit of 100 MB.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// Reads one tensor into memory of its own, contiguous and aligned: F32, F16 or BF16, in the file's dtype.
  /// @throws c10::ValueError if there is no such tensor, its dtype is another one, or the file has changed in size.
  torch::Tensor load(const std::string& name) const;

 private:
  std::filesystem::path path_;
  int64_t file_size_ = 0;
  int64_t data_offset_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace kvbook

// A file for keys and values that are not in memory: its space is reserved beforehand, and nobody else sees it.
#pragma once

#include <cstdint>
#include <string>

namespace kvbook {

// ANCHOR: contract
/// Without a name in its folder, so that it is gone with this object, or with the process, whatever ends it (where the
/// system cannot make such a file, the name is taken away at once). Not thread-safe. A write past the limit on a file's
/// size sends SIGXFSZ to the thread that calls: see TransferQueue.
class SpillFile {
 public:
  /// Reserves `bytes` (on Linux; elsewhere only the size is set), so that a full disk is known now and not in the
  /// middle of a sequence.
  /// @throws c10::Error with the folder, the bytes and the system's reason.
  SpillFile(const std::string& folder, int64_t bytes);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// All of the bytes. @throws c10::Error if the system would not, or if the file is shorter than it was made: what was
  /// cut off would come back as zeros.
  void write(int64_t offset, const void* from, int64_t bytes);
  void read(int64_t offset, void* to, int64_t bytes) const;
  // ANCHOR_END: contract

 private:
  void check_whole() const;

  std::string folder_;
  int64_t size_;
  int file_ = -1;
};

}  // namespace kvbook

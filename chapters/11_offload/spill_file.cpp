#include "chapters/11_offload/spill_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace kvbook {
namespace {

constexpr char kStartAgain[] = "call reset() and feed the tokens again";

/// -1 with errno where there can be none.
int open_nameless(const std::string& folder) {
#ifdef O_TMPFILE
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
#endif
  std::string path = folder + "/kv-cache-XXXXXX";
  const int named = mkstemp(path.data());
  if (named < 0) return named;
  fcntl(named, F_SETFD, FD_CLOEXEC);
  unlink(path.c_str());
  return named;
}

}  // namespace

SpillFile::SpillFile(const std::string& folder, int64_t bytes)
    : folder_(folder), size_(bytes), file_(open_nameless(folder)) {
  TORCH_CHECK(file_ >= 0, "cannot make a file in '", folder, "': ", std::strerror(errno),
              ": give another folder (--spill)");
#ifdef __linux__
  int fault = EINTR;
  while (fault == EINTR) fault = posix_fallocate(file_, 0, bytes);
#else
  const int fault = ftruncate(file_, bytes) == 0 ? 0 : errno;  // the size, though not the space
#endif
  if (fault == 0) return;
  close(file_);
  TORCH_CHECK(false, "cannot reserve ", bytes, " bytes in '", folder, "': ", std::strerror(fault),
              ": make room, give another folder, or keep more layers in memory");
}

SpillFile::~SpillFile() { close(file_); }

// ANCHOR: whole
void SpillFile::check_whole() const {
  struct stat file {};
  TORCH_CHECK(fstat(file_, &file) == 0 && file.st_size >= size_, "the file for keys and values in '", folder_,
              "' was cut short: ", kStartAgain);
}

void SpillFile::write(int64_t offset, const void* from, int64_t bytes) {
  check_whole();
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t done = pwrite(file_, at, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    TORCH_CHECK(done > 0, "cannot write keys and values to the file in '", folder_,
                "': ", done == 0 ? "nothing was taken" : std::strerror(errno), ": ", kStartAgain);
    at += done, offset += done, bytes -= done;
  }
}

void SpillFile::read(int64_t offset, void* to, int64_t bytes) const {
  check_whole();
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t done = pread(file_, at, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    TORCH_CHECK(done > 0, "cannot read keys and values back from the file in '", folder_,
                "': ", done == 0 ? "it was cut short" : std::strerror(errno), ": ", kStartAgain);
    at += done, offset += done, bytes -= done;
  }
}
// ANCHOR_END: whole

}  // namespace kvbook

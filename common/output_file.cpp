#include "common/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/usage_error.h"

namespace kvbook {
namespace {

constexpr char kStandardOutput[] = "-";

[[noreturn]] void cannot_write(const std::string& path) {
  throw UsageError(fmt::format("cannot write {}: {}; name another file", path, std::strerror(errno)));
}

bool is_special(const std::string& path) {  // a pipe, /dev/null: there is nothing to move into place
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Where the file is written before it is moved into place: beside it, or beside what a link points at.
std::string target(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path followed = std::filesystem::weakly_canonical(path, ignored);
  return ignored ? path : followed.string();
}
std::string part_file(const std::string& path) { return fmt::format("{}.{}.part", target(path), getpid()); }

bool written_to(std::FILE* file, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

}  // namespace

void write_output(const std::string& path, const std::string& text) {
  if (path == kStandardOutput) {
    if (!written_to(stdout, text)) cannot_write("standard output");
    return;
  }
  const std::string place = is_special(path) ? path : part_file(path);
  std::FILE* file = std::fopen(place.c_str(), "w");
  if (file == nullptr) cannot_write(path);
  const bool written = written_to(file, text);
  int reason = errno;  // of the first fault: what follows may set it anew
  const bool closed = std::fclose(file) == 0;
  if (written && !closed) reason = errno;
  bool in_place = written && closed;
  if (in_place && place != path) {
    in_place = std::rename(place.c_str(), target(path).c_str()) == 0;
    reason = errno;
  }
  if (in_place) return;
  if (place != path) std::remove(place.c_str());
  errno = reason;
  cannot_write(path);
}

void check_output(const std::string& path) {
  if (path == kStandardOutput) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    errno = EISDIR;
    cannot_write(path);
  }
  // Tries what write_output will do. Non-blocking: a pipe that nobody reads is refused, not waited for.
  const bool special = is_special(path);
  const std::string place = special ? path : part_file(path);
  const int file = open(place.c_str(), O_WRONLY | O_NONBLOCK | (special ? 0 : O_CREAT), 0666);
  if (file < 0) cannot_write(path);
  close(file);
  if (!special) std::remove(place.c_str());
}

}  // namespace kvbook

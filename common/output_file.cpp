#include "common/output_file.h"

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
  throw UsageError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

bool is_special(const std::string& path) {  // a pipe, /dev/null: there is nothing to move into place
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

void write_to(std::FILE* file, const std::string& path, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (!written || std::fflush(file) != 0) cannot_write(path);
}

}  // namespace

void write_output(const std::string& path, const std::string& text) {
  if (path == kStandardOutput) return write_to(stdout, "standard output", text);
  const std::string place = is_special(path) ? path : fmt::format("{}.{}.part", path, getpid());
  std::FILE* file = std::fopen(place.c_str(), "w");
  if (file == nullptr) cannot_write(path);
  try {
    write_to(file, path, text);
  } catch (...) {
    std::fclose(file);
    if (place != path) std::remove(place.c_str());
    throw;
  }
  if (std::fclose(file) != 0) cannot_write(path);
  if (place != path && std::rename(place.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(place.c_str());
    errno = reason;
    cannot_write(path);
  }
}

void check_output(const std::string& path) {
  if (path == kStandardOutput) return;
  if (std::filesystem::is_directory(path)) {
    errno = EISDIR;
    cannot_write(path);
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(is_special(path) ? path.c_str() : folder.empty() ? "." : folder.c_str(), W_OK) != 0) cannot_write(path);
}

}  // namespace kvbook

#include "common/input_file.h"

#include <c10/util/Exception.h>

#include <system_error>
#include <utility>

namespace kvbook {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  TORCH_CHECK_VALUE(status.type() != std::filesystem::file_type::not_found, path_.string(), ": no such file");
  TORCH_CHECK_VALUE(status.type() != std::filesystem::file_type::none, path_.string(), ": ", error.message());
  TORCH_CHECK_VALUE(std::filesystem::is_regular_file(status), path_.string(), ": not a regular file");
  stream_.open(path_, std::ios::binary);
  size_ = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  TORCH_CHECK_VALUE(stream_.is_open() && !error, path_.string(), ": cannot be opened for reading");
}

void InputFile::read(int64_t offset, int64_t count, void* into) {
  stream_.clear();
  stream_.seekg(offset);
  stream_.read(static_cast<char*>(into), count);
  TORCH_CHECK_VALUE(stream_.good() && stream_.gcount() == count, path_.string(), ": cannot read ", count,
                    " bytes from byte ", offset, " on");
}

std::string read_text(const std::filesystem::path& path, int64_t limit) {
  InputFile file(path);
  TORCH_CHECK_VALUE(file.size() <= limit, path.string(), ": has ", file.size(), " bytes, more than ", limit,
                    " are not read");
  std::string text(file.size(), '\0');
  file.read(0, file.size(), text.data());
  return text;
}

}  // namespace kvbook

#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace kvbook {

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), shown_(isatty(STDERR_FILENO) == 1) {
  draw();
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);  // back to the line's start, and clear it
}

void Progress::advance() {
  ++done_;
  draw();
}

void Progress::draw() const {
  if (!shown_) return;
  const std::string count = total_ > 0 ? fmt::format(" {}/{}", done_, total_) : "";
  std::fputs(fmt::format("\r\x1b[K{}{}", label_, count).c_str(), stderr);
}

}  // namespace kvbook

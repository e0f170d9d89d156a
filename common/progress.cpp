#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace kvbook {

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), shown_(isatty(STDERR_FILENO) == 1) {
  draw();
}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");  // back to the line's start, and clear it
}

void Progress::advance() {
  ++done_;
  draw();
}

void Progress::draw() const {
  if (!shown_) return;
  if (total_ > 0) {
    fmt::print(stderr, "\r\x1b[K{} {}/{}", label_, done_, total_);
  } else {
    fmt::print(stderr, "\r\x1b[K{}", label_);
  }
}

}  // namespace kvbook

// A line on standard error that says how far a long work is. Nothing at all where that is not a terminal.
#pragma once

#include <cstdint>
#include <string>

namespace kvbook {

/// Shows "LABEL 12/200" while it lives and removes the line at the end. `total` 0: the label alone.
/// Keep it away from a time when text is streamed to the same terminal.
class Progress {
 public:
  Progress(std::string label, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance();  ///< one more is done

 private:
  void draw() const;

  std::string label_;
  int64_t total_, done_ = 0;
  bool shown_;
};

}  // namespace kvbook

// Writes a file whole or not at all.
#pragma once

#include <string>

namespace kvbook {

/// Writes text to `path`, or to standard output if it is "-". A file is written beside its place and moved there when
/// it is complete, so that a reader never finds half of it.
/// @throws UsageError naming the path and the system's reason; what was there before is still there then.
void write_output(const std::string& path, const std::string& text);

/// @throws UsageError unless write_output(path, ...) could write there now: ask before the long work.
void check_output(const std::string& path);

}  // namespace kvbook

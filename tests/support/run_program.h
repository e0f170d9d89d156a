// Runs a built program as a reader would, and keeps what it says.
#pragma once

#include <string>
#include <vector>

namespace kvbook {

struct ProgramRun {
  int status = 0;  // 128 + the signal's number if one ended it
  std::string out, err;
};

/// Runs build/bin/NAME with these arguments, no input, and waits for it.
ProgramRun run_program(const std::string& name, const std::vector<std::string>& arguments);

/// A folder of this test program's own, empty at its start.
std::string scratch_folder();

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace kvbook

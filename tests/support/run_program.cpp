#include "tests/support/run_program.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvbook {
namespace {

/// Replaces this process by the program, with its output in two files. Does not return.
[[noreturn]] void become(const std::string& path, const std::vector<std::string>& arguments, const std::string& out,
                         const std::string& err) {
  const int input = open("/dev/null", O_RDONLY);
  const int output = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  std::vector<char*> words = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  _exit(127);
}

}  // namespace

std::string scratch_folder() {
  struct Folder {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("kvbook_test_" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path.string();
}

ProgramRun run_program(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string out = scratch_folder() + "/stdout", err = scratch_folder() + "/stderr";
  const pid_t child = fork();
  TORCH_CHECK(child >= 0, "fork failed");
  if (child == 0) become(std::string(KVBOOK_PROGRAM_FOLDER) + "/" + name, arguments, out, err);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_file(out), read_file(err)};
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  TORCH_CHECK(file.good(), "cannot write ", path);
}

std::string read_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace kvbook

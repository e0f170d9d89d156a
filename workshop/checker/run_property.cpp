#include "workshop/checker/run_property.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "workshop/checker/failure_words.h"

namespace kvbook {
namespace {

constexpr char kHolds[] = "holds";

bool is_registered(const std::string& beginning) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string name = fmt::format("{}.{}", suite.name(), suite.GetTestInfo(t)->name());
      if (name.rfind(beginning, 0) == 0) return true;
    }
  }
  return false;
}

/// From here on GoogleTest runs the tests of this property only.
void select(const Property& property) {
  for (const std::string& test : property.tests) {
    TORCH_CHECK(is_registered(test), "the workshop knows no test that begins with ", test);
  }
  testing::GTEST_FLAG(filter) = fmt::format("{}*", fmt::join(property.tests, "*:"));
}

/// Keeps the first failure.
class FirstFailure : public testing::EmptyTestEventListener {
 public:
  std::string came;

 private:
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && came.empty()) came = what_came(result.message(), test_);
  }

  std::string test_;
};

/// Runs the property and writes what came to `end`. Does not return.
[[noreturn]] void become_the_check(const Property& property, int end) {
  const int pipe = fcntl(end, F_DUPFD, STDERR_FILENO + 1);  // not where a standard stream belongs
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* const failure = new FirstFailure;  // GoogleTest deletes it
  listeners.Append(failure);
  select(property);
  const bool holds = RUN_ALL_TESTS() == 0 && testing::UnitTest::GetInstance()->test_to_run_count() > 0;
  const std::string result = holds ? kHolds : failure->came;
  for (size_t written = 0; written < result.size();) {
    const ssize_t bytes = write(pipe, result.data() + written, result.size() - written);
    if (bytes <= 0) _exit(1);
    written += static_cast<size_t>(bytes);
  }
  _exit(0);
}

/// Reads until the other side closes. Nothing if the time is up before.
std::optional<std::string> read_all(int pipe, int seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait_for = {.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? poll(&wait_for, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char buffer[4096];
    const ssize_t bytes = read(pipe, buffer, sizeof(buffer));
    if (bytes <= 0) return text;
    text.append(buffer, static_cast<size_t>(bytes));
  }
}

}  // namespace

Outcome run_property(const Property& property, int seconds) {
  std::fflush(nullptr);  // what is not printed yet would be printed twice
  int ends[2];
  TORCH_CHECK(pipe(ends) == 0, "no pipe: ", std::strerror(errno));
  const pid_t child = fork();
  TORCH_CHECK(child >= 0, "no second process: ", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    become_the_check(property, ends[1]);
  }
  close(ends[1]);
  const std::optional<std::string> result = read_all(ends[0], seconds);
  close(ends[0]);
  if (!result) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);

  if (!result) return {.came = fmt::format("no end after {} s (--seconds gives more)", seconds), .never_ended = true};
  if (*result == kHolds) return {.holds = true};
  if (!result->empty()) return {.came = *result};
  if (WIFSIGNALED(status)) return {.came = fmt::format("a crash: {}", strsignal(WTERMSIG(status)))};
  return {.came = fmt::format("the end of the program, with status {}", WEXITSTATUS(status))};
}

bool run_property_here(const Property& property) {
  select(property);
  return RUN_ALL_TESTS() == 0;
}

}  // namespace kvbook

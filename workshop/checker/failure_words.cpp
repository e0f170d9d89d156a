#include "workshop/checker/failure_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <vector>

namespace kvbook {
namespace {

// A cache may throw a text of any length, and std::regex recurses along it.
constexpr size_t kLongestMessage = 2000;
constexpr size_t kLongestFault = 200;
constexpr size_t kLongestValue = 40;

std::string cut(const std::string& text, size_t length) {
  return text.size() <= length ? text : text.substr(0, length) + "...";
}

/// The first group of the first match, or nothing.
std::optional<std::string> find(const std::string& text, const std::string& pattern) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern))) return std::nullopt;
  return match[1].str();
}

/// The first line of what an exception said, without what LibTorch puts around it.
std::string said(const std::string& what) {
  std::string line = what.substr(0, what.find('\n'));
  line = line.substr(0, line.find("\" thrown in "));
  const std::string report_a_bug = "please report a bug to PyTorch. ";
  if (const size_t at = line.find(report_a_bug); at != std::string::npos) line = line.substr(at + report_a_bug.size());
  while (!line.empty() && (line.back() == '"' || line.back() == '.' || line.back() == ' ')) line.pop_back();
  return cut(line, kLongestFault);
}

/// Both values of a comparison, in the order in which the assertion names them.
std::vector<std::string> values(const std::string& message) {
  std::vector<std::string> found;
  const std::regex pattern("Which is: ([^\n]*)");
  for (auto it = std::sregex_iterator(message.begin(), message.end(), pattern); it != std::sregex_iterator(); ++it) {
    found.push_back(cut((*it)[1].str(), kLongestValue));
  }
  return found;
}

/// Two digits of a number are enough to see its size, and the same on every machine.
std::string rounded(const std::string& number) { return fmt::format("{:.2g}", std::strtod(number.c_str(), nullptr)); }

std::string fault(const std::string& message) {
  if (const auto what = find(message, "with description \"([^\n]*)")) return "an exception: " + said(*what);
  if (message.find("Unknown C++ exception") != std::string::npos) return "an exception that is no std::exception";
  if (const auto actual = find(message, "Actual: it throws ([^\n]*)")) {
    const auto wanted = find(message, "an exception of type ([A-Za-z0-9_:]+)");
    return wanted ? fmt::format("no {}: it throws {}", *wanted, said(*actual)) : "it throws " + said(*actual);
  }
  if (const auto difference = find(message, "actual: ([^\n]*) vs ")) {  // "Expected: (a) <= (b), actual: 3 vs 2"
    const std::string bound = rounded(find(message, " vs ([^\n]*)").value_or(""));
    const bool at_most = message.find(") <= (") != std::string::npos;
    return fmt::format("a difference of {}; {} is right", rounded(*difference),
                       (at_most ? "at most " : "more than ") + bound);
  }
  const std::vector<std::string> both = values(message);
  if (both.size() == 2) return fmt::format("{}, and {} is right", both[0], both[1]);
  if (both.size() == 1) {  // a literal has no line of its own
    const auto equal = find(message, "these values:\n +([^\n]*)");
    const auto second = find(message, "these values:\n[^\n]*\n[^\n]*Which is[^\n]*\n +([^\n]*)");
    return fmt::format("{}, and {} is right", both[0], second.value_or(equal.value_or("another value")));
  }
  if (const auto own = find(message, "Expected: true\n([^\n]+)")) return *own;
  return said(message);
}

}  // namespace

std::string what_came(const std::string& message, const std::string& test_name) {
  std::string circumstances;
  if (const auto window = find(test_name, "_window_([0-9]+)_")) circumstances = "window " + *window;
  const size_t last = std::min(message.rfind("Google Test trace:\n"), message.size());  // what SCOPED_TRACE said
  if (const auto trace = find(message.substr(last, kLongestMessage), "[^\n]*:[0-9]+: ([^\n]*)")) {
    circumstances += (circumstances.empty() ? "" : ", ") + std::regex_replace(*trace, std::regex("\\b1 rows"), "1 row");
  }
  return fault(message.substr(0, kLongestMessage)) + (circumstances.empty() ? "" : fmt::format(" ({})", circumstances));
}

}  // namespace kvbook

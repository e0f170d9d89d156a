// The worked example's keys and values are those that transformers has for the same tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "chapters/chapters.h"
#include "tests/support/golden.h"
#include "tests/support/run_program.h"

namespace kvbook {
namespace {

/// Whether a row of the output has these numbers, each with an error of at most half a step of 8 bits.
bool shows_rounded(const std::string& out, size_t position, const std::vector<double>& numbers) {
  double greatest = 0;
  for (const double number : numbers) greatest = std::max(greatest, std::abs(number));
  const std::string head = fmt::format("{:>3} |", position);
  for (size_t at = out.find(head); at != std::string::npos; at = out.find(head, at + 1)) {
    std::istringstream row(out.substr(at + head.size(), 7 * numbers.size()));
    bool near = true;
    for (const double number : numbers) {
      double shown = 0;
      near = near && row >> shown && std::abs(shown - number) <= greatest / 254 + 0.0006;  // three digits are printed
    }
    if (near) return true;
  }
  return false;
}

/// A row as the program prints it: "  1 |  2.392  0.683 -1.129  0.165".
std::string printed(size_t position, const nlohmann::json& numbers) {
  std::string line = fmt::format("{:>3} |", position);
  for (const double number : numbers) line += fmt::format("{:>7.3f}", number);
  return line;
}

TEST(ByHand, ShowsTheKeysAndValuesOfTransformersInEveryChapter) {
  const nlohmann::json reference = golden_json("nano/past_key_values.json");
  for (const Chapter& chapter : chapters()) {
    const ProgramRun run = run_program("by_hand", {chapter.name});
    EXPECT_EQ(run.status, 0) << run.err;
    for (const char* kind : {"keys", "values"}) {
      for (size_t position = 0; position < 3; ++position) {
        if (!chapter.rounds.empty()) {
          EXPECT_TRUE(shows_rounded(run.out, position, reference["layers"][0][kind][0][position])) << run.out;
          continue;
        }
        const std::string row = printed(position, reference["layers"][0][kind][0][position]);
        EXPECT_NE(run.out.find(row), std::string::npos) << chapter.name << ", " << kind << ": " << row << "\n"
                                                        << run.out;
      }
    }
  }
}

TEST(ByHand, NamesWhatItHasNoExampleFor) {
  const ProgramRun run = run_program("by_hand", {"99_none"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("99_none"), std::string::npos) << run.err;
}

TEST(Claims, NameThemselvesWhereOneIsUnknown) {
  const ProgramRun run = run_program("claims", {"none"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("operations"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvbook

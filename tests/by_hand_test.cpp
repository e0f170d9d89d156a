// The worked example's keys and values are those that transformers has for the same tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "chapters/chapters.h"
#include "tests/support/golden.h"
#include "tests/support/run_program.h"

namespace kvbook {
namespace {

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

// The checks are checked: each failure fails the test that is named for it, and the chapter that it was made from
// passes.
#include "tests/failures/failures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/run_program.h"

namespace kvbook {
namespace {

/// The failure's test on every case of this chapter: float64 and float32, and windows where it takes one.
std::string filter(const Failure& failure, const std::string& chapter) {
  return fmt::format("EveryCache/{}.{}/{}_*", failure.suite, failure.check, chapter);
}

class EveryFailure : public testing::TestWithParam<Failure> {};

TEST_P(EveryFailure, FailsTheCheckThatIsNamedForItAndDoesNotCrash) {
  const Failure& failure = GetParam();
  const ProgramRun run = run_program("broken_caches", {"--gtest_filter=" + filter(failure, failure.chapter.name)});
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  const std::string failed =
      fmt::format("[  FAILED  ] EveryCache/{}.{}/{}_", failure.suite, failure.check, failure.chapter.name);
  EXPECT_NE(run.out.find(failed), std::string::npos) << run.out;
  EXPECT_NE(run.out.find(" FAILED TEST"), std::string::npos) << "it ended before the summary:\n" << run.out;
}

TEST_P(EveryFailure, SaysWhatAUserSeesAndWhereTheCureIs) {
  const Failure& failure = GetParam();
  for (const std::string& text : {failure.chapter.change, failure.symptom, failure.cure}) {
    EXPECT_FALSE(text.empty());
    EXPECT_LE(text.size(), 86U) << text;  // a line of the program `failures`
  }
  EXPECT_EQ(find_chapter(failure.chapter.same_tokens_as).name, failure.chapter.same_tokens_as);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryFailure, testing::ValuesIn(failures()),
                         [](const auto& info) { return info.param.chapter.name; });

TEST(Failures, TheChaptersThatTheyWereMadeFromPassTheSameChecks) {
  std::set<std::string> filters;
  for (const Failure& failure : failures()) filters.insert(filter(failure, failure.chapter.same_tokens_as));
  const ProgramRun run =
      run_program("../tests/conformance_test", {fmt::format("--gtest_filter={}", fmt::join(filters, ":"))});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  for (const std::string& each : filters) {
    const std::string ok = "[       OK ] " + each.substr(0, each.size() - 1);
    EXPECT_NE(run.out.find(ok), std::string::npos) << ok << "\n" << run.out;
  }
}

TEST(Failures, ListNamesAllOfThem) {
  const ProgramRun run = run_program("failures", {"--list"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const Failure& failure : failures()) EXPECT_NE(run.out.find(failure.chapter.name), std::string::npos);
}

TEST(Failures, ANameThatIsNotThereIsRefusedInOneLine) {
  const ProgramRun run = run_program("failures", {"nothing_wrong"});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "failures: there is no failure called 'nothing_wrong': --list names them\n");
}

}  // namespace
}  // namespace kvbook

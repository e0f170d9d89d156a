// The tour as `make run` starts it, with few tokens: one story, the same tokens, the table with all its rows.
#include <gtest/gtest.h>

#include "chapters/chapters.h"
#include "common/throughput.h"
#include "tests/support/run_program.h"

namespace kvbook {
namespace {

TEST(Tour, TellsOneStoryInEveryChapterAndPrintsTheTable) {
  const ProgramRun run = run_program("tour", {"--quick", "--new-tokens", "12"});
  EXPECT_EQ(run.status, 0) << run.err << run.out;
  EXPECT_EQ(run.err, "");
  for (const Chapter& chapter : chapters()) {
    if (!chapter.same_tokens_as.empty()) {
      EXPECT_NE(run.out.find(chapter.change + ": same tokens: yes"), std::string::npos) << run.out;
    }
  }
  for (const TableEntry& entry : table_entries(chapters())) {
    EXPECT_NE(run.out.find("\n" + entry.label() + " "), std::string::npos) << entry.label() << run.out;
  }
  EXPECT_EQ(run.out.find(" NO\n"), std::string::npos);
  EXPECT_NE(run.out.find("read bandwidth"), std::string::npos);
}

}  // namespace
}  // namespace kvbook

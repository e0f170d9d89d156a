// The workshop's report: what it says of each chapter's cache, of the text's steps, of the starter, and of caches that
// are half done.
#include <gtest/gtest.h>

#include <numeric>
#include <regex>

#include "tests/support/run_program.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int>;

const std::vector<std::string> kNames = {
    "a prompt: each token sees itself and all before it",
    "then one token at a time",
    "the position moves once a forward",
    "the dtype is the model's",
    "after reset() it is as good as new",
    "rows of a batch stay apart",
    "bytes() is what the formula says",
    "the keys it holds are its own",
    "another batch size or dtype is refused until reset()",
    "a forward that fails costs nothing",
    "it ends where the model's context ends",
    "a thousand steps leave nothing behind",
    "a prompt in chunks of any size",
    "a later token of a chunk moves no earlier one",
    "chunks and single tokens generate the same",
    "a chunk that fails costs nothing",
    "the memory is made once, for the capacity",
    "tokens are written in place",
    "a step copies its new tokens and nothing else",
    "a token too many is refused before anything is written",
    "the window bounds the memory",
    "a query sees the last W tokens, itself included",
    "a chunk on a full window attends first and evicts after",
    "a forward that fails on a full window costs nothing",
    "a step on a full window copies its own token and nothing else",
    "what is taken back is as if it had never come",
    "on a full window, too, or it is refused",
};

struct Reported {
  ProgramRun run;
  std::vector<std::string> names = {};
  Numbers holds = {};  // 1 for the first
};

/// Characters of UTF-8 text.
int64_t columns(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

Reported report(const std::string& program, std::vector<std::string> arguments, const std::string& seconds = "300") {
  arguments.insert(arguments.end(), {"--seconds", seconds});
  Reported reported{.run = run_program(program, arguments)};
  std::istringstream lines(reported.run.out);
  const std::regex verdict(" *([0-9]+) (holds  |not yet)  (.*)");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(columns(line), 80) << line;
    if (!std::regex_match(line, match, verdict)) continue;
    reported.names.push_back(match[3]);
    EXPECT_EQ(std::stoul(match[1]), reported.names.size());
    if (match[2] == "holds  ") reported.holds.push_back(std::stoi(match[1]));
  }
  EXPECT_EQ(reported.run.status, 0) << reported.run.err;
  EXPECT_EQ(reported.run.err, "");
  EXPECT_EQ(reported.names, kNames) << reported.run.out;
  return reported;
}

Reported half_done(const std::string& cache, const std::string& seconds = "300") {
  return report("../tests/half_done_workshop", {cache}, seconds);
}

constexpr int kTakenBack = 26;  // whatever grows can also take back

Numbers up_to(int last) {
  Numbers numbers(last);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

Numbers up_to_and_taken_back(int last) {
  Numbers numbers = up_to(last);
  numbers.push_back(kTakenBack);
  return numbers;
}

Numbers without(Numbers numbers, std::initializer_list<int> missing) {
  for (const int number : missing) numbers.erase(std::find(numbers.begin(), numbers.end(), number));
  return numbers;
}

bool says(const Reported& reported, const std::string& piece) {
  return reported.run.out.find(piece) != std::string::npos;
}

TEST(Workshop, EachChaptersCacheKeepsItsPromisesAndNotThoseOfTheNext) {
  EXPECT_EQ(report("workshop", {"02_cat_cache"}).holds, up_to_and_taken_back(12));
  EXPECT_EQ(report("workshop", {"03_masked_offsets"}).holds, up_to_and_taken_back(16));
  EXPECT_EQ(report("workshop", {"04_preallocated"}).holds, up_to_and_taken_back(20));
  // 5 shifts, refuses nothing below the context, and copies more in a step; 6 refuses nothing either.
  EXPECT_EQ(report("workshop", {"05_sliding_window"}).holds, without(up_to(27), {19, 20, 25}));
  EXPECT_EQ(report("workshop", {"06_ring_buffer"}).holds, without(up_to(27), {20}));
}

TEST(Workshop, TheStepsOfTheTextArriveWhereItSays) {
  EXPECT_EQ(report("workshop", {"step_1"}).holds, (Numbers{1, 2, 3, 4, 8}));
  EXPECT_EQ(report("workshop", {"step_2"}).holds, up_to_and_taken_back(12));
  EXPECT_EQ(report("workshop", {"step_3"}).holds, up_to_and_taken_back(16));
  EXPECT_EQ(report("workshop", {"finished"}).holds, up_to_and_taken_back(20));
}

TEST(Workshop, EveryTestOfTheConformanceSuiteBelongsToAPromise) {
  const std::string folder = KVBOOK_DATA_FOLDER "/../";
  const std::string suite = read_file(folder + "tests/conformance/conformance_suite.cpp");
  const std::string properties = read_file(folder + "workshop/checker/property.cpp");
  const std::regex test("TEST_P\\(CacheConformance, ([A-Za-z0-9]+)\\)");
  int count = 0;
  for (auto it = std::sregex_iterator(suite.begin(), suite.end(), test); it != std::sregex_iterator(); ++it, ++count) {
    const std::string name = (*it)[1];
    EXPECT_NE(properties.find("suite(\"" + name + "\""), std::string::npos) << name;
  }
  EXPECT_GT(count, 20);
}

TEST(Workshop, TheStarterIsToldKindlyThatNothingIsWrittenYet) {
  const Reported starter = report("workshop", {"starter"});
  EXPECT_EQ(starter.holds, Numbers{});
  EXPECT_TRUE(says(starter, "Nothing is written yet"));
  EXPECT_FALSE(says(starter, "came"));
}

/// What it promises is the reader's affair; .ci/run looks at the file as it is shipped.
TEST(Workshop, WithoutANameItIsTheReadersCache) {
  EXPECT_EQ(run_program("workshop", {"--property", "1"}).status, 0);
  EXPECT_EQ(run_program("workshop", {"--seconds", "1"}).out.rfind("my_cache:", 0), 0U);
}

TEST(Workshop, StrictGivesAStatusToScripts) {
  EXPECT_EQ(run_program("workshop", {"04_preallocated", "--strict", "--seconds", "300"}).status, 1);
  EXPECT_EQ(run_program("workshop", {"02_cat_cache", "--strict", "--property", "1"}).status, 0);
  EXPECT_EQ(run_program("workshop", {"02_cat_cache", "--strict", "--property", "13"}).status, 1);
}

TEST(Workshop, OnePropertyIsShownWithAllThatTheTestsSay) {
  const ProgramRun run = run_program("workshop", {"02_cat_cache", "--property", "13"});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.out.find("[  FAILED  ]"), std::string::npos) << run.out;
}

TEST(Workshop, RefusesBadInputInOneLine) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"99_nothing"},
                                                                                         {"--property", "28"},
                                                                                         {"--property", "0"},
                                                                                         {"--property", "x"},
                                                                                         {"--seconds", "0"},
                                                                                         {"--x"}}) {
    const ProgramRun run = run_program("workshop", arguments);
    EXPECT_EQ(run.status, 2) << arguments[0];
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
  EXPECT_NE(run_program("workshop", {"99_nothing"}).err.find("05_sliding_window"), std::string::npos);
}

TEST(HalfDone, AMaskThatForgetsThePastFailsForChunksOnly) {
  const Reported reported = half_done("no_offset");
  Numbers holds = up_to(12);
  holds.push_back(14);  // the last token is seen by none, so it moves none
  holds.push_back(kTakenBack);
  EXPECT_EQ(reported.holds, holds);
  EXPECT_TRUE(says(reported, "came      a difference of ")) << reported.run.out;
  EXPECT_TRUE(says(reported, "Next: 13, a prompt in chunks of any size"));
}

TEST(HalfDone, AnExceptionFromResetIsQuotedWhereResetIsCalled) {
  const Reported reported = half_done("angry_reset");
  EXPECT_EQ(reported.holds, (Numbers{1, 2, 3, 4, 8})) << reported.run.out;
  EXPECT_TRUE(says(reported, "came      an exception: reset() is not mine to give\n"));
}

TEST(HalfDone, WhatIsNoExceptionOfTheLibraryIsReportedToo) {
  const Reported reported = half_done("throws_an_int");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_TRUE(says(reported, "came      an exception that is no std::exception\n"));
}

TEST(HalfDone, AnExceptionWithoutEndIsCutShort) {
  const Reported reported = half_done("throws_a_novel");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_TRUE(says(reported, "came      an exception: and then and then"));
  EXPECT_LT(reported.run.out.size(), 10000U);
}

TEST(HalfDone, ACacheThatCannotBeMadeSaysWhy) {
  const Reported reported = half_done("no_constructor");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_TRUE(says(reported, "came      an exception: not today\n"));
}

TEST(HalfDone, ACrashTakesOnlyTheChecksThatMeetIt) {
  const Reported reported = half_done("crashes");  // with four tokens held
  EXPECT_TRUE(std::find(reported.holds.begin(), reported.holds.end(), 1) != reported.holds.end());
  EXPECT_TRUE(std::find(reported.holds.begin(), reported.holds.end(), 2) == reported.holds.end());
  EXPECT_TRUE(says(reported, "came      a crash: Abort")) << reported.run.out;
}

TEST(HalfDone, UndefinedTensorsAreAFaultAndNotACrash) {
  const Reported reported = half_done("returns_nothing");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_FALSE(says(reported, "a crash")) << reported.run.out;
}

TEST(HalfDone, AnEndlessLoopIsStoppedAndTheRestNotTried) {
  const Reported reported = half_done("never_ends", "1");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_TRUE(says(reported, "came      no end after 1 s (--seconds gives more)\n"));
  EXPECT_TRUE(says(reported, "not tried"));
}

TEST(HalfDone, ACacheThatEndsTheProgramDoesNotPassForIt) {
  const Reported reported = half_done("quits");
  EXPECT_EQ(reported.holds, Numbers{});
  EXPECT_TRUE(says(reported, "came      the end of the program, with status 0\n"));
}

TEST(HalfDone, ACacheThatKeepsNothingHoldsForAPromptAlone) {
  const Reported reported = half_done("forgets");
  EXPECT_TRUE(std::find(reported.holds.begin(), reported.holds.end(), 1) != reported.holds.end());
  for (const int number : {2, 7, 10, 13, 15, 17, 18, 21, 22, 23}) {
    EXPECT_EQ(std::count(reported.holds.begin(), reported.holds.end(), number), 0) << number << reported.run.out;
  }
}

}  // namespace
}  // namespace kvbook

// The command-line contract, by running the built programs: flags, JSON, exit statuses, one line for bad input.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chapters/chapters.h"
#include "common/tokenizer.h"
#include "tests/support/golden.h"
#include "tests/support/run_program.h"

namespace kvbook {
namespace {

using Ids = std::vector<int64_t>;
using Words = std::vector<std::string>;

const std::string kNano = std::string(KVBOOK_DATA_FOLDER) + "/golden/nano";
const std::string kTiny = std::string(KVBOOK_DATA_FOLDER) + "/golden/tiny";

std::string comma_separated(const Ids& ids) {
  std::string text;
  for (const int64_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

/// Runs a chapter with --json - and returns the parsed result. Nothing but one JSON object may be on standard output.
nlohmann::json run_json(const std::string& chapter, Words arguments) {
  arguments.insert(arguments.end(), {"--json", "-", "--threads", "1"});
  const ProgramRun run = run_program(chapter, arguments);
  EXPECT_EQ(run.status, 0) << chapter << ": " << run.err;
  EXPECT_EQ(run.err, "");
  return nlohmann::json::parse(run.out);
}

void expect_refusal(const std::string& program, const Words& arguments, const std::string& piece) {
  const ProgramRun run = run_program(program, arguments);
  const std::string shown = program + " " + testing::PrintToString(arguments) + " said: " + run.err;
  EXPECT_EQ(run.status, 2) << shown;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << shown;
  EXPECT_NE(run.err.find(piece), std::string::npos) << shown << "expected: " << piece;
  EXPECT_EQ(run.out, "") << shown;
}

TEST(Programs, EveryChapterGivesTheGoldenRunsThroughTheJson) {
  for (const GoldenRun& golden : golden_runs("tiny", "full")) {
    if (golden.prompt.size() < 4 || golden.prompt.size() > 7) continue;
    for (const Chapter& chapter : exact_chapters()) {
      const nlohmann::json json =
          run_json(chapter.name, {"--model", kTiny, "--prompt-ids", comma_separated(golden.prompt), "--new-tokens",
                                  std::to_string(golden.new_tokens()), "--dtype", "float64", "--logits"});
      EXPECT_EQ(json.at("new_ids").get<Ids>(), golden.new_ids()) << chapter.name;
      EXPECT_EQ(json.at("prompt_ids").get<Ids>(), golden.prompt);
      const std::vector<double> logits = json.at("last_logits");
      ASSERT_EQ(logits.size(), golden.end_logits.size());
      for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], golden.end_logits[i], 1e-8);
    }
  }
}

TEST(Programs, TheJsonHasEveryKeyOfTheContract) {
  for (const Chapter& chapter : chapters()) {
    const nlohmann::json json =
        run_json(chapter.name, {"--model", kTiny, "--prompt-ids", "5,6,7", "--new-tokens", "4", "--dtype", "bfloat16"});
    EXPECT_EQ(json.at("chapter"), chapter.name);
    EXPECT_EQ(json.at("model"), kTiny);
    EXPECT_EQ(json.at("dtype"), "bfloat16");
    EXPECT_EQ(json.at("threads"), 1);
    EXPECT_EQ(json.at("finish_reason"), "length");
    for (const char* rate : {"ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "tokens_per_s"}) {
      EXPECT_GT(json.at(rate).get<double>(), 0.0) << rate;
    }
    EXPECT_GE(json.at("min_margin").get<double>(), 0.0);
    EXPECT_FALSE(json.contains("last_logits"));
    EXPECT_FALSE(json.contains("turns"));
    const int64_t slots = chapter.name == "01_naive"            ? 0
                          : chapter.name == "02_cat_cache"      ? 6  // 3 + 4 - 1 tokens were fed
                          : chapter.name == "03_masked_offsets" ? 6
                                                                : 64;
    const int64_t a_token = chapter.rounds.empty() ? 8 * 2 : 8 + 4;  // D numbers; or D codes and a scale
    const int64_t layers = chapter.name == "11_offload" ? 2 : 3;     // in memory
    EXPECT_EQ(json.at("kv_bytes"), 2 * layers * 3 * slots * a_token) << chapter.name;  // 2·L·H·S
  }
}

TEST(Programs, ATextInBracketsIsATextLikeAnyOther) {
  const Tokenizer tokenizer(KVBOOK_DATA_FOLDER "/tales");
  const auto expect_texts = [&](Words words, const std::string& first, const std::string& second) {
    words.insert(words.end(), {"--new-tokens", "1"});
    const nlohmann::json turns = run_json("03_masked_offsets", words).at("turns");
    ASSERT_EQ(turns.size(), 3U) << first;
    EXPECT_EQ(turns.at(0).at("prompt_ids").get<Ids>(), tokenizer.encode(first));
    EXPECT_EQ(turns.at(1).at("prompt_ids").get<Ids>(), tokenizer.encode(second));
    EXPECT_EQ(turns.at(2).at("prompt_ids").get<Ids>(), tokenizer.encode("Then"));
  };
  const std::vector<std::string> texts = {"[a,b]", "[[aa]]", "[]", "{}", "\"[a]\"", "%%"};
  for (size_t i = 0; i + 1 < texts.size(); i += 2) {
    const std::string &first = texts[i], &second = texts[i + 1];
    expect_texts({"--prompt", first, "--turn", second, "--turn", "Then"}, first, second);
    expect_texts({"--prompt=" + second, "--turn=" + first, "--turn=Then"}, second, first);
  }
}

TEST(Programs, AValueWithoutMeaningIsNull) {
  const nlohmann::json json = run_json("02_cat_cache", {"--model", kNano, "--prompt-ids", "5", "--new-tokens", "1"});
  EXPECT_TRUE(json.at("decode_tokens_per_s").is_null());
}

TEST(Programs, Case05EveryChapterEndsWithTheContextAndStatusZero) {
  for (const Chapter& chapter : chapters()) {
    const Words prompt = {"--model", kNano, "--prompt-ids", "2,14,0,4,3,0", "--new-tokens"};
    for (const int asked : {2, 3, 4}) {
      Words words = prompt;
      words.push_back(std::to_string(asked));
      const nlohmann::json json = run_json(chapter.name, words);
      EXPECT_EQ(json.at("new_ids").size(), static_cast<size_t>(std::min(asked, 3)));
      EXPECT_EQ(json.at("finish_reason"), asked <= 3 ? "length" : "context_full");
    }
    expect_refusal(chapter.name, {"--model", kNano, "--prompt-ids", "1,2,3,4,5,6,7,8,9"}, "context");
  }
}

TEST(Programs, ChunksAndWindowsGiveTheGoldenTokens) {
  const GoldenRun full = golden_runs("tiny", "full").at(2);
  for (const char* chunk : {"1", "2", "3", "100"}) {
    for (const char* chapter : {"03_masked_offsets", "04_preallocated", "05_sliding_window"}) {
      const nlohmann::json json =
          run_json(chapter, {"--model", kTiny, "--prompt-ids", comma_separated(full.prompt), "--new-tokens",
                             std::to_string(full.new_tokens()), "--chunk", chunk});
      EXPECT_EQ(json.at("new_ids").get<Ids>(), full.new_ids()) << chapter << ", chunk " << chunk;
    }
  }
  for (const GoldenRun& run : golden_runs("tiny", "window")) {
    const nlohmann::json json =
        run_json("05_sliding_window",
                 {"--model", kTiny, "--prompt-ids", comma_separated(run.prompt), "--new-tokens",
                  std::to_string(run.new_tokens()), "--window", std::to_string(*run.window), "--chunk", "4"});
    EXPECT_EQ(json.at("new_ids").get<Ids>(), run.new_ids()) << "window " << *run.window;
    EXPECT_EQ(json.at("kv_bytes"), 2 * 3 * 3 * std::min<int64_t>(*run.window, 64) * 8 * 4);
  }
}

TEST(Programs, Case40AWindowALayerGivesTheGoldenTokens) {
  for (const std::string model : {"nano", "tiny"}) {
    for (const GoldenRun& run : golden_runs(model, "layers")) {
      for (const char* chunk : {"1", "4", "100"}) {
        const nlohmann::json json =
            run_json("10_layer_windows", {"--model", model == "nano" ? kNano : kTiny, "--prompt-ids",
                                          comma_separated(run.prompt), "--new-tokens", std::to_string(run.new_tokens()),
                                          "--layer-windows", comma_separated(run.windows), "--chunk", chunk});
        EXPECT_EQ(json.at("new_ids").get<Ids>(), run.new_ids()) << comma_separated(run.windows) << ", chunk " << chunk;
      }
    }
  }
  for (const GoldenRun& run : golden_runs("tiny", "window")) {  // equal windows: chapter 5's tokens
    const nlohmann::json json =
        run_json("10_layer_windows",
                 {"--model", kTiny, "--prompt-ids", comma_separated(run.prompt), "--new-tokens",
                  std::to_string(run.new_tokens()), "--layer-windows", comma_separated(Ids(3, *run.window))});
    EXPECT_EQ(json.at("new_ids").get<Ids>(), run.new_ids()) << "window " << *run.window;
    EXPECT_EQ(json.at("kv_bytes"), 2 * 3 * 3 * std::min<int64_t>(*run.window, 64) * 8 * 4);
  }
}

TEST(Programs, AsManyLayersAsFitTheMemoryStayThereAndTheTokensAreTheSame) {
  const Words words = {"--model", "tales", "--prompt", "Once upon a time", "--new-tokens", "40"};  // a layer: 0.5 MiB
  const Ids want = run_json("04_preallocated", words).at("new_ids").get<Ids>();
  for (const auto& [mib, layers] : {std::pair{"1", 2}, {"2", 4}, {"1000", 4}}) {
    Words with = words;
    with.insert(with.end(), {"--resident-mib", mib});
    const nlohmann::json json = run_json("11_offload", with);
    EXPECT_EQ(json.at("new_ids").get<Ids>(), want) << mib << " MiB";
    EXPECT_EQ(json.at("kv_bytes"), layers * (1 << 19));
  }
  Words wide = words;
  wide.insert(wide.end(), {"--dtype", "float64", "--resident-mib", "1"});
  EXPECT_EQ(run_json("11_offload", wide).at("kv_bytes"), 1 << 20);
  expect_refusal("11_offload", {"--model", "gpt2-random", "--resident-mib", "5"}, "give at least 6");
}

TEST(Programs, LayersOfDifferentWindowsAreTracedApart) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "layer_windows_trace.json";
  run_json("10_layer_windows", {"--model", kNano, "--prompt-ids", "1,2,3", "--new-tokens", "2", "--layer-windows",
                                "2,0", "--trace=" + file.string()});
  const nlohmann::json forwards = nlohmann::json::parse(std::ifstream(file)).at("forwards");
  std::filesystem::remove(file);
  ASSERT_EQ(forwards.size(), 4U);  // two forwards, two kinds of layer
  EXPECT_EQ(forwards.at(2).at("layers"), nlohmann::json({0}));
  EXPECT_EQ(forwards.at(2).at("keys"), nlohmann::json({2, 3}));
  EXPECT_EQ(forwards.at(3).at("layers"), nlohmann::json({1}));
  EXPECT_EQ(forwards.at(3).at("keys"), nlohmann::json({0, 1, 2, 3}));
}

TEST(Programs, WhereAWindowInSomeLayerHidesTokensTheComparisonIsNotAPromise) {
  const Words words = {"--model",      kNano, "--prompt-ids",   "1,2,3",
                       "--new-tokens", "3",   "--layer-windows"};  // 5 positions
  for (const char* windows : {"1,1", "4,0"}) {
    Words hides = words;
    hides.emplace_back(windows);
    const ProgramRun run = run_program("10_layer_windows", hides);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("not promised"), std::string::npos) << run.out;
  }
  Words sees = words;
  sees.emplace_back("5,0");
  const ProgramRun run = run_program("10_layer_windows", sees);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out.find("not promised"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("same tokens as 04_preallocated: yes"), std::string::npos) << run.out;
}

TEST(Programs, TurnsGiveTheTokensOfAFreshRunOnEverythingJoined) {
  for (const Chapter& chapter : exact_chapters()) {
    if (!chapter.takes_turns) continue;
    const nlohmann::json json = run_json(chapter.name, {"--model", kTiny, "--prompt-ids", "5,6,7", "--new-tokens", "6",
                                                        "--turn-ids", "8", "--turn-ids", "9,10,11"});
    const nlohmann::json& turns = json.at("turns");
    ASSERT_EQ(turns.size(), 3U);
    Ids joined;
    for (const auto& turn : turns) {
      const Ids input = turn.at("prompt_ids"), answer = turn.at("new_ids");
      joined.insert(joined.end(), input.begin(), input.end());
      const nlohmann::json fresh =
          run_json("01_naive", {"--model", kTiny, "--prompt-ids", comma_separated(joined), "--new-tokens", "6"});
      EXPECT_EQ(fresh.at("new_ids").get<Ids>(), answer);
      joined.insert(joined.end(), answer.begin(), answer.end());
    }
    EXPECT_EQ(json.at("new_ids"), turns.back().at("new_ids"));
    EXPECT_EQ(json.at("prompt_ids").get<Ids>(), (Ids{5, 6, 7}));
  }
}

TEST(Programs, TextAndIdTurnsKeepTheirOrder) {
  const nlohmann::json json = run_json("03_masked_offsets", {"--prompt", "Once", "--new-tokens", "2", "--turn-ids",
                                                             "65", "--turn", " upon", "--turn-ids", "66"});
  const nlohmann::json& turns = json.at("turns");
  ASSERT_EQ(turns.size(), 4U);
  EXPECT_EQ(turns[1].at("prompt_ids").get<Ids>(), Ids{65});
  EXPECT_NE(turns[2].at("prompt_ids").get<Ids>(), Ids{66});
  EXPECT_EQ(turns[3].at("prompt_ids").get<Ids>(), Ids{66});
}

TEST(Programs, StopAtEosEndsWithTheEndOfTextTokenAsTheLastNewId) {
  for (const Chapter& chapter : chapters()) {
    const nlohmann::json json = run_json(chapter.name, {"--new-tokens", "400", "--stop-at-eos"});
    const Ids ids = json.at("new_ids");
    EXPECT_EQ(json.at("finish_reason"), "eos") << chapter.name;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), ids.back()), 1);
    EXPECT_LT(ids.size(), 400U);
  }
}

TEST(Programs, ReadersSeeTheStoryTheComparisonAndBothRates) {
  for (const Chapter& chapter : chapters()) {
    const ProgramRun run = run_program(chapter.name, {"--new-tokens", "30"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, "");  // quiet where it is not a terminal
    EXPECT_NE(run.out.find("tok/s end to end"), std::string::npos);
    if (!chapter.same_tokens_as.empty()) {
      const std::string answer = chapter.rounds.empty() ? ": yes" : ": ";
      EXPECT_NE(run.out.find("same tokens as " + chapter.same_tokens_as + answer), std::string::npos) << run.out;
    }
  }
}

TEST(Programs, ChapterFiveShowsTheTaleAtTwoWindowsSideBySide) {
  const ProgramRun run = run_program("05_sliding_window", {"--new-tokens", "150"});
  EXPECT_EQ(run.status, 0) << run.err;
  const size_t heading = run.out.find("window 512 (all of the context)");
  ASSERT_NE(heading, std::string::npos);
  ASSERT_NE(run.out.find("window 64", heading), std::string::npos);
  std::string left, right;  // the two columns below the heading
  std::istringstream lines(run.out.substr(run.out.find('\n', heading) + 1));
  for (std::string line; std::getline(lines, line);) {
    left += line.substr(0, 56) + " ";
    if (line.size() > 56) right += line.substr(56) + " ";
  }
  const nlohmann::json prompts = golden_json("../tales/prompts.json");
  const nlohmann::json& prompt = prompts.at("prompts").at(0);
  const auto count = [](const std::string& text, const std::string& word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  for (const auto& fact : prompt.at("facts")) {  // told once in the opening, and again where it is not forgotten
    EXPECT_GE(count(left, fact), 2U) << fact << left;
    EXPECT_EQ(count(right, fact), 1U) << fact << right;
  }
}

TEST(Programs, ChapterFiveShowsNoColumnsWhereTheWindowHidesNothing) {
  EXPECT_EQ(run_program("05_sliding_window", {"--new-tokens", "3"}).out.find("window 64"), std::string::npos);
}

TEST(Programs, TheJsonFileIsWrittenWholeAndNothingElseIsLeftBeside) {
  const std::string folder = scratch_folder() + "/json";
  std::filesystem::create_directories(folder);
  write_file(folder + "/result.json", "old");
  const ProgramRun run = run_program("02_cat_cache", {"--model", kNano, "--prompt-ids", "1,2", "--new-tokens", "2",
                                                      "--json", folder + "/result.json"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(folder + "/result.json")).at("new_ids").size(), 2U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(run.out.find("same tokens"), std::string::npos);  // this chapter only
}

TEST(Programs, HelpNamesTheFlagsThatHaveAMeaningAndEndsWithStatusZero) {
  const ProgramRun naive = run_program("01_naive", {"--help"});
  EXPECT_EQ(naive.status, 0);
  EXPECT_NE(naive.out.find("--prompt-ids"), std::string::npos);
  EXPECT_EQ(naive.out.find("--window"), std::string::npos);
  EXPECT_NE(run_program("05_sliding_window", {"--help"}).out.find("--window"), std::string::npos);
}

TEST(Programs, TraceDrawsEveryForwardAndThenTellsTheStory) {
  for (const Chapter& chapter : chapters()) {
    const ProgramRun run =
        run_program(chapter.name, {"--model", kNano, "--prompt-ids", "2,14,0", "--new-tokens", "3", "--trace"});
    EXPECT_EQ(run.status, 0) << run.err;
    const bool cached = chapter.make_cache != nullptr;
    EXPECT_NE(run.out.find(" 0-2    3  "), std::string::npos) << run.out;
    for (const char* row : {"\n        3    1  ", "\n        4    1  "}) {
      EXPECT_EQ(run.out.find(row) != std::string::npos, cached) << chapter.name << row << run.out;
    }
    EXPECT_EQ(run.out.find(" 0-4    5  xxxxx ") != std::string::npos, !cached) << run.out;
    EXPECT_NE(run.out.find("\n2, 14, 0, "), std::string::npos) << run.out;
  }
}

TEST(Programs, TheTraceFileHoldsWhatEachForwardDid) {
  const std::string file = scratch_folder() + "/trace.json";
  const nlohmann::json result =
      run_json("05_sliding_window",
               {"--model", kNano, "--prompt-ids", "2,14,0,4", "--new-tokens", "3", "--window", "3", "--trace=" + file});
  const nlohmann::json trace = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(trace.at("chapter"), "05_sliding_window");
  const nlohmann::json& forwards = trace.at("forwards");
  ASSERT_EQ(forwards.size(), 3U);  // the prompt, then two tokens: the third is never fed
  EXPECT_EQ(forwards.at(0).at("ids").get<Ids>(), (Ids{2, 14, 0, 4}));
  EXPECT_EQ(forwards.at(0).at("keys").get<Ids>(), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(forwards.at(0).at("after").get<Ids>(), (Ids{2, 3, -1}));
  const nlohmann::json band = {{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 1, 0}, {0, 1, 1, 1}};
  EXPECT_EQ(forwards.at(0).at("visible"), band);
  EXPECT_EQ(forwards.at(2).at("first_position"), 5);
  EXPECT_EQ(forwards.at(2).at("ids").at(0), result.at("new_ids").at(1));
  EXPECT_EQ(forwards.at(2).at("keys").get<Ids>(), (Ids{3, 4, 5}));
  EXPECT_EQ(forwards.at(2).at("after").get<Ids>(), (Ids{4, 5, -1}));
  EXPECT_EQ(forwards.at(2).at("visible"), (nlohmann::json{{1, 1, 1}}));
  EXPECT_EQ(forwards.at(2).at("bytes"), result.at("kv_bytes"));
}

Words rows_of(const std::vector<GoldenRun>& runs, const Words& more) {
  Words words = {"--model", kTiny, "--dtype", "float64", "--logits"};
  for (const GoldenRun& run : runs) words.insert(words.end(), {"--prompt-ids", comma_separated(run.prompt)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Programs, SeveralPromptsAreAnsweredEachAsAloneInTheOrderGiven) {
  std::vector<GoldenRun> runs;
  int64_t least = 64;
  for (const GoldenRun& run : golden_runs("tiny", "full")) {
    runs.push_back(run);
    least = std::min(least, run.new_tokens());
  }
  ASSERT_GE(runs.size(), 3U);
  for (const Chapter& chapter : chapters()) {
    if (!chapter.takes_rows) continue;
    std::vector<Words> variants = {{}, {"--pad", "left"}, {"--rows", "2"}, {"--chunk", "3"}};
    if (chapter.takes_pages) {
      variants.insert(variants.end(), {{"--page", "1"}, {"--page", "100"}, {"--page", "3", "--pool-pages", "22"}});
    }
    for (const Words& more : variants) {
      Words words = rows_of(runs, more);
      words.insert(words.end(), {"--new-tokens", std::to_string(least)});
      const nlohmann::json json = run_json(chapter.name, words);
      ASSERT_EQ(json.at("rows").size(), runs.size());
      for (size_t i = 0; i < runs.size(); ++i) {
        const nlohmann::json& row = json.at("rows").at(i);
        const Ids all = runs[i].new_ids();
        EXPECT_EQ(row.at("prompt_ids").get<Ids>(), runs[i].prompt);
        EXPECT_EQ(row.at("new_ids").get<Ids>(), Ids(all.begin(), all.begin() + least)) << chapter.name << ", row " << i;
        EXPECT_EQ(row.at("finish_reason"), "length");
        EXPECT_GT(row.at("min_margin").get<double>(), 0.0);
        EXPECT_EQ(row.at("last_logits").size(), 97U);
      }
      for (const char* of_one : {"prompt_ids", "new_ids", "finish_reason", "last_logits"}) {
        EXPECT_TRUE(json.at(of_one).is_null()) << of_one;
      }
      EXPECT_GT(json.at("tokens_per_s").get<double>(), 0.0);
      EXPECT_GT(json.at("kv_bytes").get<int64_t>(), 0);
      const bool waited = !more.empty() && more[0] == "--rows";
      EXPECT_EQ(json.at("ttft_ms").is_null(), waited);
    }
  }
}

TEST(Programs, OnePromptHasOneRowAndTheKeysOfEveryChapter) {
  const nlohmann::json json =
      run_json("07_ragged_batch", {"--model", kNano, "--prompt-ids", "2,14,0", "--new-tokens", "3", "--logits"});
  ASSERT_EQ(json.at("rows").size(), 1U);
  const nlohmann::json& row = json.at("rows").at(0);
  for (const char* key : {"prompt_ids", "new_ids", "finish_reason", "min_margin", "last_logits"}) {
    EXPECT_EQ(row.at(key), json.at(key)) << key;
  }
  const nlohmann::json turns = run_json("07_ragged_batch", {"--model", kNano, "--prompt-ids", "2,14", "--new-tokens",
                                                            "2", "--turn-ids", "3", "--pad", "left", "--rows", "3"});
  EXPECT_EQ(turns.at("rows").at(0).at("min_margin"), turns.at("min_margin"));
}

TEST(Programs, SeveralPromptsAreShownAndComparedWithTheirSoloRuns) {
  const ProgramRun run = run_program(
      "07_ragged_batch", {"--model", kNano, "--prompt-ids", "2,14,0", "--prompt-ids", "7", "--new-tokens", "3"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* piece : {"prompt 0: 3 + 3 tokens (length)\n2, 14, 0, ", "prompt 1: 1 + 3 tokens (length)\n7, ",
                            "same tokens as 04_preallocated, each alone: yes"}) {
    EXPECT_NE(run.out.find(piece), std::string::npos) << piece << run.out;
  }
}

TEST(Programs, TheTraceOfSeveralRowsNamesTheRow) {
  const Words prompts = {"--model", kNano, "--prompt-ids", "2,14,0", "--prompt-ids", "7", "--new-tokens", "2"};
  Words drawn = prompts, filed = prompts;
  drawn.push_back("--trace");
  const ProgramRun run = run_program("07_ragged_batch", drawn);
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* row : {"0:0-2    3  ", "1:0    1  ", "0:3    1  ", "1:1    1  "}) {
    EXPECT_NE(run.out.find(row), std::string::npos) << row << run.out;
  }
  const std::string file = scratch_folder() + "/rows.json";
  filed.push_back("--trace=" + file);
  run_json("07_ragged_batch", filed);
  const nlohmann::json forwards = nlohmann::json::parse(read_file(file)).at("forwards");
  ASSERT_EQ(forwards.size(), 4U);  // two rows in each of two forwards
  EXPECT_EQ(forwards.at(1).at("row"), 1);
  EXPECT_EQ(forwards.at(1).at("ids").get<Ids>(), Ids{7});
  EXPECT_EQ(forwards.at(1).at("keys").get<Ids>(), (Ids{0, -1, -1}));
  EXPECT_EQ(forwards.at(1).at("visible"), (nlohmann::json{{1, 0, 0}}));
}

struct BadInput {
  std::string program;
  Words arguments;
  std::string piece;  // of the one line on standard error
};

TEST(Programs, EveryBadInputGetsOneLineThatNamesItAndStatusTwo) {
  const Words nano = {"--model", kNano, "--prompt-ids"};
  const auto with_nano = [&](const Words& more) {
    Words words = nano;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<BadInput> table = {
      {"01_naive", {"--no-such-flag"}, "--no-such-flag"},
      {"01_naive", {"stray"}, "stray"},
      {"01_naive", {"--trace", "--json", "-"}, "--trace"},
      {"01_naive", {"--trace="}, "--trace"},
      {"01_naive", {"--trace=-"}, "--trace"},
      {"04_preallocated", with_nano({"1", "--trace=/no/such/folder/x.json"}), "/no/such/folder/x.json"},
      {"01_naive", {"--prompt", "a", "--prompt-ids", "1"}, "exclude"},
      {"01_naive", {"--prompt", ""}, "empty"},
      {"01_naive", {"--prompt-ids", ""}, "--prompt-ids"},
      {"01_naive", {"--prompt-ids", "1,,2"}, "1,,2"},
      {"01_naive", {"--prompt-ids", "1,2,"}, "commas"},
      {"01_naive", {"--prompt-ids", "1 2"}, "1 2"},
      {"01_naive", {"--prompt-ids", "one"}, "one"},
      {"01_naive", {"--prompt-ids", "99999999999999999999"}, "99999999999999999999"},
      {"01_naive", with_nano({"16"}), "--prompt-ids: id 16"},
      {"01_naive", with_nano({"-1"}), "--prompt-ids: id -1"},
      {"01_naive", with_nano({"1", "--new-tokens", "0"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--new-tokens", "-5"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--new-tokens", "many"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--new-tokens", "99999999999999999999"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--new-tokens"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--new-tokens", "1", "--new-tokens", "2"}), "--new-tokens"},
      {"01_naive", with_nano({"1", "--dtype", "float16"}), "float16"},
      {"01_naive", with_nano({"1", "--threads", "0"}), "--threads"},
      {"01_naive", with_nano({"1", "--threads", "100000"}), "--threads"},
      {"01_naive", with_nano({"1", "--logits"}), "--json"},
      {"01_naive", with_nano({"1", "--json", ""}), "--json"},
      {"01_naive", with_nano({"1", "--json", "/no/such/folder/result.json"}), "/no/such/folder"},
      {"01_naive", with_nano({"1", "--json", "/"}), "directory"},
      {"01_naive", {"--model", kNano, "--prompt", "text"}, "tokenizer"},
      {"01_naive", {"--model", kNano}, "--prompt-ids"},
      {"01_naive", {"--model", "/no/such/model", "--prompt-ids", "1"}, "/no/such/model"},
      {"01_naive", {"--model", scratch_folder(), "--prompt-ids", "1"}, "config.json"},
      {"01_naive", {"--model", "", "--prompt-ids", "1"}, "--model"},
      {"01_naive", with_nano({"1", "--chunk", "2"}), "--chunk has no meaning"},
      {"01_naive", with_nano({"1", "--window", "2"}), "--window has no meaning"},
      {"01_naive", with_nano({"1", "--capacity", "2"}), "--capacity has no meaning"},
      {"01_naive", with_nano({"1", "--turn-ids", "2"}), "--turn-ids has no meaning"},
      {"02_cat_cache", with_nano({"1", "--turn", "2"}), "--turn has no meaning"},
      {"02_cat_cache", with_nano({"1,2,3,4,5", "--chunk", "2"}), "chapter 3"},
      {"02_cat_cache", with_nano({"1", "--chunk", "0"}), "--chunk"},
      {"03_masked_offsets", with_nano({"1", "--turn-ids", "2,x"}), "--turn-ids"},
      {"03_masked_offsets", with_nano({"1,2", "--new-tokens", "4", "--turn-ids", "3,4,5"}), "context"},
      {"03_masked_offsets", {"--prompt", "Once", "--turn", ""}, "--turn"},
      {"03_masked_offsets", with_nano({"1", "--turn-ids", "16"}), "--turn-ids: id 16"},
      {"03_masked_offsets", with_nano({"1", "--new-tokens", "9223372036854775807", "--turn-ids", "1"}), "context"},
      {"04_preallocated", with_nano({"1,2", "--capacity", "4", "--new-tokens", "9223372036854775807"}), "--capacity 4"},
      {"04_preallocated", with_nano({"1,2", "--new-tokens", "4", "--capacity", "4"}), "--capacity 4"},
      {"04_preallocated", with_nano({"1", "--capacity", "0"}), "--capacity"},
      {"04_preallocated", with_nano({"1", "--window", "4"}), "--window has no meaning"},
      {"05_sliding_window", with_nano({"1", "--window", "0"}), "--window"},
      {"05_sliding_window", with_nano({"1", "--capacity", "4"}), "--capacity has no meaning"},
      {"05_sliding_window", {"--new-tokens=", "--threads", "1"}, "--new-tokens= has no value"},
      {"05_sliding_window", {"--json=", "--stop-at-eos"}, "--json= has no value"},
      {"06_ring_buffer", with_nano({"1", "--window", "0"}), "--window"},
      {"06_ring_buffer", with_nano({"1", "--prompt-ids", "2"}), "07_ragged_batch"},
      {"06_ring_buffer", with_nano({"1", "--pad", "left"}), "--pad has no meaning"},
      {"06_ring_buffer", with_nano({"1", "--rows", "2"}), "--rows has no meaning"},
      {"07_ragged_batch", with_nano({"1", "--pad", "middle"}), "--pad is left or right"},
      {"07_ragged_batch", with_nano({"1", "--rows", "0"}), "--rows"},
      {"07_ragged_batch", with_nano({"1", "--prompt-ids", "2", "--turn-ids", "3"}), "--turn"},
      {"07_ragged_batch", with_nano({"1", "--prompt", "a"}), "exclude"},
      {"07_ragged_batch", with_nano({"1", "--prompt-ids", ""}), "--prompt-ids"},
      {"07_ragged_batch", with_nano({"1", "--prompt-ids", "16"}), "id 16"},
      {"07_ragged_batch", with_nano({"1", "--prompt-ids", "1,2,3,4,5,6,7,8,9"}), "prompt 1: the prompt has 9 tokens"},
      {"07_ragged_batch", with_nano({"1", "--page", "2"}), "--page has no meaning"},
      {"07_ragged_batch", with_nano({"1", "--pool-pages", "2"}), "--pool-pages has no meaning"},
      {"08_paged", with_nano({"1", "--page", "0"}), "--page"},
      {"08_paged", with_nano({"1", "--page", "-4"}), "--page"},
      {"08_paged", with_nano({"1", "--page", "4194305"}), "--page"},
      {"08_paged", with_nano({"1", "--pool-pages", "0"}), "--pool-pages"},
      {"08_paged", with_nano({"1", "--pool-pages", "9223372036854775807"}), "--pool-pages"},
      {"08_paged", with_nano({"1,2,3", "--page", "2", "--pool-pages", "2", "--new-tokens", "3"}), "too few"},
      {"08_paged", with_nano({"1", "--prompt-ids", "1,2,3", "--page", "2", "--pool-pages", "2", "--new-tokens", "3"}),
       "prompt 1: --pool-pages 2 of 2 tokens"},
      {"08_paged", {"--page", "4194304", "--pool-pages", "4194304", "--new-tokens", "1"}, "not enough memory"},
      {"08_paged", with_nano({"1", "--capacity", "4"}), "--capacity has no meaning"},
      {"09_int8", with_nano({"1", "--scales", "layer"}), "--scales is token, channel or group"},
      {"09_int8", with_nano({"1", "--scales", "group", "--group", "0"}), "--group"},
      {"09_int8", with_nano({"1", "--group", "8"}), "--scales group"},
      {"09_int8", with_nano({"1", "--prompt-ids", "2"}), "07_ragged_batch"},
      {"08_paged", with_nano({"1", "--scales", "token"}), "--scales has no meaning"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2"}), "1 windows and"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,0,3"}), "has 2 layers"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,-1"}), "not -1"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,"}), "--layer-windows takes a window for each layer"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,full"}), "such as 64,64,0,0"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,99999999999999999999"}), "--layer-windows"},
      {"10_layer_windows", with_nano({"1", "--layer-windows", "2,0", "--layer-windows", "0,2"}), "--layer-windows"},
      {"10_layer_windows", with_nano({"1", "--window", "2"}), "--window has no meaning"},
      {"06_ring_buffer", with_nano({"1", "--layer-windows", "2,0"}), "--layer-windows has no meaning"},
      {"11_offload", with_nano({"1", "--resident-mib", "0"}), "--resident-mib"},
      {"11_offload", with_nano({"1", "--resident-mib", "9223372036854775807"}), "--resident-mib"},
      {"11_offload", with_nano({"1", "--resident-mib", "1.5"}), "--resident-mib"},
      {"11_offload", with_nano({"1", "--spill", "/nowhere/at/all"}), "--spill: '/nowhere/at/all'"},
      {"11_offload", with_nano({"1", "--spill", "/dev/null"}), "is not a folder"},
      {"11_offload", with_nano({"1", "--capacity", "4"}), "--capacity has no meaning"},
      {"10_layer_windows", with_nano({"1", "--spill", "/tmp"}), "--spill has no meaning"},
      {"10_layer_windows", with_nano({"1", "--resident-mib", "4"}), "--resident-mib has no meaning"},
      {"offloading", {"--steps", "0"}, "--steps"},
      {"offloading", {"--model", kNano}, "context"},
      {"schedule", {"stray"}, "stray"},
      {"paging", {"--steps", "0"}, "--steps"},
      {"paging", {"--repetitions", "99"}, "--repetitions"},
      {"paging", {"--json", "-"}, "--json"},
      {"paging", {"--model", kNano}, "context"},
      {"pool", {"stray"}, "stray"},
      {"batching", {"--rows", "0"}, "--rows"},
      {"batching", {"--json", "-"}, "--json"},
      {"01_naive", {"--model", std::string(5000, 'x'), "--prompt-ids", "1"}, "no folder"},
      {"01_naive", with_nano({"1", "--json", scratch_folder() + "/" + std::string(255, 'n')}), "name another file"},
      {"01_naive", with_nano({"1", "--json", kNano + "/config.json/x"}), "name another file"},
      {"01_naive", {"--\x1b[31mred"}, "red"},
      {"tour", {"--new-tokens", "0"}, "--new-tokens"},
      {"tour", {"--no-such-flag"}, "--no-such-flag"},
      {"throughput", {"--model", "tales"}, "--model"},
      {"throughput", {"--threads", "-1"}, "--threads"},
      {"layouts", {"--threads", "0"}, "--threads"},
      {"throughput", {"--json", "/no/such/folder/x.json"}, "/no/such/folder"},
  };
  for (const BadInput& bad : table) expect_refusal(bad.program, bad.arguments, bad.piece);
}

TEST(Programs, ACapacityThatIsJustEnoughIsTaken) {
  const nlohmann::json json =
      run_json("04_preallocated", {"--model", kNano, "--prompt-ids", "1,2", "--new-tokens", "4", "--capacity", "5"});
  EXPECT_EQ(json.at("new_ids").size(), 4U);
  EXPECT_EQ(json.at("kv_bytes"), 2 * 2 * 2 * 5 * 4 * 4);
  run_json("04_preallocated", {"--model", kNano, "--prompt-ids", "1", "--new-tokens", "1", "--capacity", "1"});
}

TEST(Programs, TheLargestNumbersAreNoFault) {
  const std::string most = "9223372036854775807";
  const nlohmann::json json =
      run_json("02_cat_cache", {"--model", kNano, "--prompt-ids", "1,2", "--chunk", most, "--new-tokens", most});
  EXPECT_EQ(json.at("finish_reason"), "context_full");
  EXPECT_EQ(
      run_json("05_sliding_window", {"--model", kNano, "--prompt-ids", "1", "--window", most}).at("new_ids").size(),
      8U);
}

TEST(Programs, ACapacityThatNoMemoryHoldsIsAnErrorWithARemedy) {
  for (const char* capacity : {"100000000000000", "9223372036854775807"}) {
    const ProgramRun run =
        run_program("04_preallocated", {"--model", kNano, "--prompt-ids", "1", "--capacity", capacity, "--json", "-"});
    EXPECT_EQ(run.status, 2);
    EXPECT_NE(run.err.find("not enough memory"), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
  }
}

TEST(Programs, ABrokenModelFolderGetsOneLine) {
  const std::string folder = scratch_folder() + "/broken";
  std::filesystem::create_directories(folder);
  std::filesystem::copy(kNano + "/config.json", folder, std::filesystem::copy_options::overwrite_existing);
  expect_refusal("02_cat_cache", {"--model", folder, "--prompt-ids", "1"}, "model.safetensors");
  write_file(folder + "/model.safetensors", "short");
  expect_refusal("02_cat_cache", {"--model", folder, "--prompt-ids", "1"}, "model.safetensors");
}

TEST(Programs, APipeThatNobodyReadsIsRefusedAndNotWaitedFor) {
  const std::string pipe = scratch_folder() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refusal("01_naive", {"--model", kNano, "--prompt-ids", "1", "--json", pipe}, "name another file");
}

TEST(Programs, ALinkIsFollowedAndStaysALink) {
  const std::string folder = scratch_folder() + "/links";
  std::filesystem::create_directories(folder);
  write_file(folder + "/real.json", "old");
  std::filesystem::create_symlink("real.json", folder + "/link.json");
  const ProgramRun run = run_program(
      "01_naive", {"--model", kNano, "--prompt-ids", "1", "--new-tokens", "1", "--json", folder + "/link.json"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link.json"));
  EXPECT_EQ(nlohmann::json::parse(read_file(folder + "/real.json")).at("new_ids").size(), 1U);
}

TEST(Programs, AStandardErrorThatCannotBeWrittenIsNoAbort) {
  if (!std::filesystem::exists("/dev/full")) return;  // Linux has one
  const std::string program = std::string("'") + KVBOOK_PROGRAM_FOLDER + "/01_naive' --bogus 2>/dev/full >/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(program.c_str())), 2);
}

TEST(Programs, AFullDeviceIsAnErrorAndNotHalfAResult) {
  if (!std::filesystem::exists("/dev/full")) return;  // Linux has one
  const ProgramRun run =
      run_program("01_naive", {"--model", kNano, "--prompt-ids", "1", "--new-tokens", "1", "--json", "/dev/full"});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_NE(run.err.find("/dev/full"), std::string::npos);
}

}  // namespace
}  // namespace kvbook

// The throughput table: what its figures are made of, on made-up samples and on a real run of the nano model.
#include "common/throughput.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chapters/chapters.h"
#include "common/throughput_table.h"
#include "tests/support/golden.h"

namespace kvbook {
namespace {

Samples samples(const char* chapter, std::vector<int64_t> new_ids, std::optional<int64_t> window = {}) {
  Samples row{.entry = {&find_chapter(chapter), window}};
  row.new_ids = std::move(new_ids);
  row.repetitions = 1;
  row.ttft_ms = {100};
  row.tokens_per_s = {10};
  row.step_ms = {50, 50, 60};
  return row;
}

/// 1 MB of weights a token, 100 MB/s of bandwidth: a step of 50 ms reads 20 MB/s, a fifth of it.
ThroughputResult made_up(std::vector<Samples> rows) {
  ThroughputResult result;
  result.model = "made-up";
  result.dtype = torch::kFloat32;
  result.threads = 2;
  result.read_bandwidth = 1e8;
  result.weight_bytes = 1000000;
  result.workloads = {{.workload = {{1, 2, 3, 4}, 3, 3}, .rows = std::move(rows)}};
  return result;
}

TEST(ThroughputTable, RatesAreThoseOfTheSamples) {
  Samples cached = samples("02_cat_cache", {7, 8, 9});
  cached.tokens_per_s = {55};
  const std::string text = throughput_text(made_up({samples("01_naive", {7, 8, 9}), cached}));
  EXPECT_NE(text.find(" 5.5x"), std::string::npos) << text;  // 55 over 10
  EXPECT_NE(text.find("  20%"), std::string::npos) << text;  // of the read bandwidth
  EXPECT_NE(text.find("read bandwidth 0.1 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("3 of the 3 new ids are distinct"), std::string::npos) << text;
}

TEST(ThroughputTable, OtherTokensAreSaidAloudAndBelieved) {
  const ThroughputResult result = made_up(
      {samples("01_naive", {7, 8, 9}), samples("02_cat_cache", {7, 8, 9}), samples("03_masked_offsets", {7, 8, 1})});
  EXPECT_FALSE(all_tokens_agree(result));
  EXPECT_NE(throughput_text(result).find(" NO\n"), std::string::npos);
}

TEST(ThroughputTable, AShorterUncachedRunIsComparedAsFarAsItGoes) {
  EXPECT_TRUE(all_tokens_agree(made_up({samples("01_naive", {7}), samples("02_cat_cache", {7, 8, 9})})));
  EXPECT_FALSE(all_tokens_agree(made_up({samples("01_naive", {6}), samples("02_cat_cache", {7, 8, 9})})));
  EXPECT_FALSE(all_tokens_agree(
      made_up({samples("01_naive", {7}), samples("02_cat_cache", {7, 8, 9}), samples("04_preallocated", {7, 8, 1})})));
}

TEST(ThroughputTable, ARepetitionWithOtherTokensIsSaidAloud) {
  Samples cached = samples("02_cat_cache", {7, 8, 9});
  cached.repeatable = false;
  EXPECT_FALSE(all_tokens_agree(made_up({samples("01_naive", {7, 8, 9}), cached})));
}

TEST(ThroughputTable, BFloat16PromisesNoIdentity) {
  ThroughputResult result = made_up({samples("01_naive", {7, 8, 9}), samples("02_cat_cache", {7, 8, 1})});
  result.dtype = torch::kBFloat16;
  EXPECT_TRUE(all_tokens_agree(result));
  EXPECT_NE(throughput_text(result).find("(bf16)"), std::string::npos);
}

TEST(ThroughputTable, AWindowThatHidesTokensPromisesNoIdentity) {
  const Samples hides = samples("05_sliding_window", {7, 1, 1}, 5), sees = samples("05_sliding_window", {7, 1, 1}, 6);
  EXPECT_TRUE(all_tokens_agree(made_up({samples("01_naive", {7, 8, 9}), hides})));  // 4 + 3 - 1 = 6 positions
  EXPECT_FALSE(all_tokens_agree(made_up({samples("01_naive", {7, 8, 9}), sees})));
}

TEST(ThroughputTable, WindowsInSomeLayersAreNotHeldToThoseInAll) {
  Samples all = samples("05_sliding_window", {7, 1, 1}, 5), some = samples("10_layer_windows", {7, 8, 1}, 5);
  some.entry.in_every_other = true;
  EXPECT_TRUE(all_tokens_agree(made_up({samples("01_naive", {7, 8, 9}), all, some})));
  some.entry.window = 6;  // hides nothing
  EXPECT_FALSE(all_tokens_agree(made_up({samples("01_naive", {7, 8, 9}), all, some})));
}

TEST(Throughput, MeasuresEveryRowAndKeepsTheRawSamples) {
  const Checkpoint checkpoint = golden_checkpoint("tiny", torch::kFloat32);
  const ThroughputPlan plan{.entries = table_entries(chapters()),
                            .workloads = {{.prompt = {1, 2, 3, 4}, .new_tokens = 20, .uncached_new_tokens = 20},
                                          {.prompt = {5, 6, 7}, .new_tokens = 9, .uncached_new_tokens = 2}},
                            .repetitions = 3};
  const ThroughputResult result = measure_throughput(plan, checkpoint, 1);
  EXPECT_TRUE(all_tokens_agree(result));
  EXPECT_GT(result.read_bandwidth, 1e8);
  const nlohmann::json json = nlohmann::json::parse(throughput_json(result));
  const auto& rows = json.at("workloads").at(0).at("rows");
  const auto takes_window = [](const Chapter& chapter) { return chapter.takes_window || chapter.takes_layer_windows; };
  const auto windows = std::count_if(chapters().begin(), chapters().end(), takes_window);
  ASSERT_EQ(rows.size(), chapters().size() + windows);  // those once more, with a smaller one
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("tokens_per_s").size(), 3U);
    EXPECT_EQ(row.at("step_ms").size(), 3U * 19);
    const bool cached = row.at("chapter") != "01_naive";
    const bool windowed = !row.at("window").is_null();
    EXPECT_EQ(row.at("cache_step_ms").size(), cached ? 3U * 19 : 0U);
    EXPECT_EQ(!row.at("linear_ms").empty(), cached && !windowed);
  }
  const auto& short_naive = json.at("workloads").at(1).at("rows").at(0);
  EXPECT_EQ(short_naive.at("repetitions"), 1);
  EXPECT_EQ(short_naive.at("new_ids").size(), 2U);
}

}  // namespace
}  // namespace kvbook

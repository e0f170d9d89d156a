// Every chapter tells every tale with the same words: 200 tokens, and transformers agrees.
#include <gtest/gtest.h>

#include "chapters/chapters.h"
#include "common/ids.h"
#include "common/model_source.h"
#include "tests/support/golden.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

class Tales : public testing::Test {
 protected:
  Generation tell(const Chapter& chapter, const std::vector<int64_t>& prompt, int64_t new_tokens,
                  std::optional<int64_t> window = {}) const {
    CacheOptions options = default_cache_options(checkpoint_.config.shape());
    options.window = window.value_or(options.window);
    options.layer_windows.assign(checkpoint_.config.layers, options.window);
    return open_session(chapter, checkpoint_, options)->generate(to_row(prompt), {.new_tokens = new_tokens});
  }

  const Checkpoint checkpoint_ = load_checkpoint(data_folder() / "tales", torch::kFloat32);
  const nlohmann::json reference_ = golden_json("tales.json");
};

TEST_F(Tales, EveryChapterGivesTransformersTokens) {
  ASSERT_GE(reference_.at("prompts").size(), 4U);
  for (const auto& tale : reference_.at("prompts")) {
    const std::vector<int64_t> want = tale.at("new_ids");
    ASSERT_EQ(want.size(), 200U);
    for (const Chapter& chapter : exact_chapters()) {
      const Generation told = tell(chapter, tale.at("prompt"), 200);
      EXPECT_EQ(to_ids(told.new_ids), want) << chapter.name << ", smallest gap " << told.min_margin;
      EXPECT_NEAR(told.min_margin, tale.at("min_margin").get<double>(), 1e-3);
    }
  }
}

TEST_F(Tales, Case07AWindowGivesTheTokensOfTheBandedOracle) {
  const auto& tale = reference_.at("prompts").at(0);
  ASSERT_EQ(tale.at("windows").size(), 2U);
  for (const auto& run : tale.at("windows")) {
    const std::vector<int64_t> want = run.at("new_ids");
    for (const Chapter& chapter : exact_chapters()) {
      if (!chapter.takes_window && !chapter.takes_layer_windows) continue;
      EXPECT_EQ(to_ids(tell(chapter, tale.at("prompt"), 200, run.at("window")).new_ids), want) << run.at("window");
    }
  }
}

}  // namespace
}  // namespace kvbook

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
    return open_session(chapter, checkpoint_, options)->generate(to_row(prompt), {.new_tokens = new_tokens});
  }

  const Checkpoint checkpoint_ = load_checkpoint(data_folder() / "tales", torch::kFloat32);
  const nlohmann::json reference_ = golden_json("tales.json");
};

TEST_F(Tales, EveryChapterGivesTransformersTokens) {
  for (const auto& tale : reference_.at("tales")) {
    const std::vector<int64_t> prompt = tale.at("prompt"), ids = tale.at("ids");
    const std::vector<int64_t> want(ids.begin() + static_cast<int64_t>(prompt.size()), ids.end());
    ASSERT_EQ(want.size(), 200U);
    for (const Chapter& chapter : chapters()) {
      const Generation told = tell(chapter, prompt, 200);
      EXPECT_EQ(to_ids(told.new_ids), want) << chapter.name << ", smallest gap " << told.min_margin;
      EXPECT_NEAR(told.min_margin, tale.at("min_margin").get<double>(), 1e-3);
    }
  }
}

TEST_F(Tales, AWindowGivesTheTokensOfTheBandedOracle) {
  for (const auto& run : reference_.at("windows")) {
    const std::vector<int64_t> prompt = run.at("prompt"), ids = run.at("ids");
    const std::vector<int64_t> want(ids.begin() + static_cast<int64_t>(prompt.size()), ids.end());
    for (const Chapter& chapter : chapters()) {
      if (!chapter.takes_window) continue;
      EXPECT_EQ(to_ids(tell(chapter, prompt, static_cast<int64_t>(want.size()), run.at("window")).new_ids), want);
    }
  }
}

}  // namespace
}  // namespace kvbook

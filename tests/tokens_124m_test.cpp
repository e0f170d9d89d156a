// The 124M shape with seeded weights: every chapter gives the tokens that transformers gave for the same weights.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "chapters/chapters.h"
#include "common/ids.h"
#include "common/model_source.h"
#include "tests/support/golden.h"

namespace kvbook {
namespace {

TEST(Tokens124M, EveryChapterGivesTransformersTokens) {
  at::set_num_threads(usable_cores());
  const NamedModel model = open_model("gpt2-random", torch::kFloat32);
  const std::vector<int64_t> reference = golden_json("gpt2_random.json").at("ids");
  EXPECT_GE(std::set<int64_t>(reference.begin() + 4, reference.end()).size(), 50U);  // one token for ever proves little
  const std::vector<int64_t> want(reference.begin() + 4, reference.begin() + 4 + 64);
  const CacheOptions options = default_cache_options(model.checkpoint.config.shape());
  for (const Chapter& chapter : exact_chapters()) {
    const auto session = open_session(chapter, model.checkpoint, options);
    const Generation generation = session->generate(to_row(kHelloIAm), {.new_tokens = 64});
    EXPECT_EQ(to_ids(generation.new_ids), want) << chapter.name << ", smallest gap " << generation.min_margin;
  }
}

TEST(RealGpt2, EveryChapterGivesTheKnownTokensWhenTheWeightsAreHere) {
  if (!std::filesystem::exists(data_folder() / "gpt2" / "model.safetensors")) {
    GTEST_SKIP() << "the weights of gpt2 are not here: fetch them with `make gpt2`";
  }
  at::set_num_threads(usable_cores());
  const NamedModel model = open_model("gpt2", torch::kFloat32);
  const std::vector<int64_t> want = {373,  1043, 287,  257,   2214, 1474, 262, 16246, 286,
                                     2688, 290,  2688, 27262, 13,   198,  198, 464,   3290};
  const CacheOptions options = default_cache_options(model.checkpoint.config.shape());
  for (const Chapter& chapter : exact_chapters()) {
    const auto session = open_session(chapter, model.checkpoint, options);
    const Generation generation = session->generate(to_row({464, 3290}), {.new_tokens = 18});
    EXPECT_EQ(to_ids(generation.new_ids), want) << chapter.name;
  }
}

}  // namespace
}  // namespace kvbook

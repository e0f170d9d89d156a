// What a program answers when the tokens that must agree do not: a chapter compared with one that is broken on purpose.
#include "common/program.h"

#include <gtest/gtest.h>

#include "chapters/chapters.h"

namespace kvbook {
namespace {

/// Forgets the values: other tokens than any honest cache.
class BrokenCache final : public KVCache {
 public:
  explicit BrokenCache(const ModelShape& shape) : KVCache(shape) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    return {key, torch::zeros_like(value), {}};
  }
  int64_t bytes() const override { return 0; }
};

/// Runs chapter 2's program, compared with the broken one under its neighbour's name, and returns the exit status.
int run_beside_broken(std::vector<const char*> arguments, std::string& output) {
  const Chapter broken{.name = "01_naive", .make_cache = [](const ModelShape& shape, const CacheOptions&) {
                         return std::make_unique<BrokenCache>(shape);
                       }};
  arguments.insert(arguments.begin(), {"02_cat_cache", "--prompt-ids", "1,2,3", "--new-tokens", "8", "--threads", "1"});
  arguments.insert(arguments.end(), {"--model", KVBOOK_DATA_FOLDER "/golden/tiny"});
  testing::internal::CaptureStdout();
  const int status =
      run_program(static_cast<int>(arguments.size()), arguments.data(), find_chapter("02_cat_cache"), {broken});
  output = testing::internal::GetCapturedStdout();
  return status;
}

TEST(Program, EndsWithStatusOneWhenTokensThatMustAgreeDiffer) {
  std::string output;
  EXPECT_EQ(run_beside_broken({}, output), 1);
  EXPECT_NE(output.find("same tokens as 01_naive: no"), std::string::npos) << output;
}

TEST(Program, EndsWithStatusZeroWhereNoTokensArePromised) {
  std::string output;
  EXPECT_EQ(run_beside_broken({"--dtype", "bfloat16"}, output), 0);
  EXPECT_NE(output.find("not promised"), std::string::npos) << output;
}

}  // namespace
}  // namespace kvbook

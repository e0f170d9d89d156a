// The shared model's parameters: names, shapes and number. What it computes: golden_test and the conformance suite.
#include "common/gpt2.h"

#include <gtest/gtest.h>

#include <map>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"

namespace kvbook {
namespace {

TEST(Gpt2, Case18HasTheParametersOfTheHuggingFaceCheckpointAndNoHeadOfItsOwn) {
  const Checkpoint checkpoint = golden_checkpoint("nano");  // 2 layers, E 8, V 16, context 8
  const Gpt2 model(checkpoint);
  std::map<std::string, std::vector<int64_t>> want = {
      {"wte.weight", {16, 8}}, {"wpe.weight", {8, 8}}, {"ln_f.weight", {8}}, {"ln_f.bias", {8}}};
  for (const char* block : {"h.0.", "h.1."}) {
    const std::map<std::string, std::vector<int64_t>> parts = {
        {"ln_1.weight", {8}},           {"ln_1.bias", {8}},
        {"ln_2.weight", {8}},           {"ln_2.bias", {8}},
        {"attn.c_attn.bias", {24}},     {"attn.c_attn.weight", {8, 24}},
        {"attn.c_proj.weight", {8, 8}}, {"attn.c_proj.bias", {8}},
        {"mlp.c_fc.weight", {8, 32}},   {"mlp.c_fc.bias", {32}},
        {"mlp.c_proj.bias", {8}},       {"mlp.c_proj.weight", {32, 8}}};
    for (const auto& [name, shape] : parts) want[block + name] = shape;
  }
  std::map<std::string, std::vector<int64_t>> got;
  for (const auto& parameter : model->named_parameters()) got[parameter.key()] = parameter.value().sizes().vec();
  EXPECT_EQ(got, want);
}

TEST(Gpt2, SharesTheCheckpointsTensorsAndAsksForNoGradient) {
  const Checkpoint checkpoint = golden_checkpoint("nano");
  const Gpt2 model(checkpoint);
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter.value().data_ptr(), checkpoint.weights.at(parameter.key()).data_ptr()) << parameter.key();
    EXPECT_FALSE(parameter.value().requires_grad()) << parameter.key();
  }
}

TEST(Gpt2, RefusesACacheMadeForAnotherShapeBeforeTheCacheIsAsked) {
  Gpt2 model(golden_checkpoint("nano"));
  ModelShape shape = model->shape();
  shape.context = 16;
  PreallocatedCache inner(shape, 16);
  CountingCache cache(inner);
  try {
    model->hidden({torch::zeros({1, 2}, torch::kInt64)}, cache);
    ADD_FAILURE() << "a cache for a context of 16 was taken by a model with 8";
  } catch (const c10::ValueError& error) {
    const std::string what = error.what_without_backtrace();
    EXPECT_NE(what.find("context 16"), std::string::npos) << what;
    EXPECT_NE(what.find("context 8"), std::string::npos) << what;
  }
  EXPECT_EQ(cache.begins, 0);
}

}  // namespace
}  // namespace kvbook

// Reference ids and pieces, made in tools/golden, and the comparison with them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/tokenizer.h"

namespace kvbook {

struct TokenizerGoldenCase {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int64_t> ids;
  std::optional<std::vector<int64_t>> special_ids;  // where the text names a special token
};

/// Throws (and so fails the test) if the file is missing or has another form.
inline std::vector<TokenizerGoldenCase> read_tokenizer_golden(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + " is missing; tools/golden makes it");
  std::vector<TokenizerGoldenCase> cases;
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const nlohmann::json& entry : golden.at("cases")) {
    TokenizerGoldenCase golden_case;
    entry.at("text").get_to(golden_case.text);
    entry.at("pieces").get_to(golden_case.pieces);
    entry.at("ids").get_to(golden_case.ids);
    if (entry.contains("special_ids")) golden_case.special_ids = entry["special_ids"].get<std::vector<int64_t>>();
    cases.push_back(std::move(golden_case));
  }
  return cases;
}

inline void expect_matches_golden(const Tokenizer& tokenizer, const std::vector<TokenizerGoldenCase>& cases) {
  EXPECT_GE(cases.size(), 20u);
  for (const TokenizerGoldenCase& golden : cases) {
    SCOPED_TRACE(testing::PrintToString(golden.text));
    EXPECT_EQ(tokenizer.split(golden.text), golden.pieces);
    EXPECT_EQ(tokenizer.encode(golden.text), golden.ids);
    EXPECT_EQ(tokenizer.decode(golden.ids), golden.text);
    if (golden.special_ids) {
      EXPECT_EQ(tokenizer.encode(golden.text, Tokenizer::SpecialTokens::kAsIds), *golden.special_ids);
      EXPECT_EQ(tokenizer.decode(*golden.special_ids), golden.text);
    }
  }
}

}  // namespace kvbook

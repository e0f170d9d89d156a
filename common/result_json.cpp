#include "common/result_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/ids.h"

namespace kvbook {
namespace {

using Json = nlohmann::ordered_json;

/// Infinity stands for "no gap was seen": a vocabulary of one word.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json turns_json(const Conversation& said) {
  Json turns = Json::array();
  for (size_t i = 0; i < said.answers.size(); ++i) {
    turns.push_back({{"prompt_ids", said.inputs[i]}, {"new_ids", to_ids(said.answers[i].new_ids)}});
  }
  return turns;
}

Json logits_json(const torch::Tensor& logits) {  // float64 holds every digit of the other dtypes
  const torch::Tensor row = logits.to(torch::kFloat64).contiguous();
  return std::vector<double>(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
}

Json optional_number(const std::optional<double>& value) { return value ? number_or_null(*value) : Json(nullptr); }

Json begun(const Chapter& chapter, const ProgramOptions& options) {
  return {{"chapter", chapter.name},
          {"model", options.model},
          {"dtype", dtype_name(options.dtype)},
          {"threads", options.threads}};
}

/// What one prompt came to.
Json row_json(const std::vector<int64_t>& prompt, const Generation& answer, double min_margin,
              const ProgramOptions& options) {
  Json row = {{"prompt_ids", prompt},
              {"new_ids", to_ids(answer.new_ids)},
              {"finish_reason", to_string(answer.finish_reason)},
              {"min_margin", number_or_null(min_margin)}};
  if (options.logits) row["last_logits"] = logits_json(answer.last_logits[0]);
  return row;
}

std::string dumped(const Json& json) {
  return json.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string result_json(const Chapter& chapter, const ProgramOptions& options, const Conversation& said) {
  const Generation& last = said.last();
  const Timings& timings = last.timings;
  Json json = begun(chapter, options);
  json["prompt_ids"] = said.inputs.front();
  json["new_ids"] = to_ids(last.new_ids);
  json["finish_reason"] = to_string(last.finish_reason);
  json["ttft_ms"] = number_or_null(timings.ttft_ms());
  json["prefill_tokens_per_s"] = number_or_null(timings.prefill_tokens_per_s());
  json["decode_tokens_per_s"] = optional_number(timings.decode_tokens_per_s());
  json["tokens_per_s"] = number_or_null(timings.tokens_per_s());
  json["kv_bytes"] = said.kv_bytes;
  json["min_margin"] = number_or_null(said.min_margin());
  if (options.logits) json["last_logits"] = logits_json(last.last_logits[0]);
  if (said.inputs.size() > 1) json["turns"] = turns_json(said);
  if (chapter.takes_rows) json["rows"] = Json::array({row_json(said.inputs.front(), last, said.min_margin(), options)});
  return dumped(json);
}

std::string result_json(const Chapter& chapter, const ProgramOptions& options, const BatchConversation& said) {
  Json json = begun(chapter, options);
  for (const char* of_one_row : {"prompt_ids", "new_ids", "finish_reason"}) json[of_one_row] = nullptr;
  json["ttft_ms"] = optional_number(said.ttft_ms());
  json["prefill_tokens_per_s"] = optional_number(said.prefill_tokens_per_s());
  json["decode_tokens_per_s"] = optional_number(said.decode_tokens_per_s());
  json["tokens_per_s"] = number_or_null(said.generation.tokens_per_s());
  json["kv_bytes"] = said.kv_bytes;
  json["min_margin"] = number_or_null(said.min_margin());
  if (options.logits) json["last_logits"] = nullptr;
  json["rows"] = Json::array();
  for (size_t row = 0; row < said.prompts.size(); ++row) {
    const Generation& answer = said.generation.answers[row];
    json["rows"].push_back(row_json(said.prompts[row], answer, answer.min_margin, options));
  }
  return dumped(json);
}

}  // namespace kvbook

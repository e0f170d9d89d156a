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

}  // namespace

std::string result_json(const Chapter& chapter, const ProgramOptions& options, const Conversation& said) {
  const Generation& last = said.last();
  const Timings& timings = last.timings;
  const auto decode_rate = timings.decode_tokens_per_s();
  Json json;
  json["chapter"] = chapter.name;
  json["model"] = options.model;
  json["dtype"] = dtype_name(options.dtype);
  json["threads"] = options.threads;
  json["prompt_ids"] = said.inputs.front();
  json["new_ids"] = to_ids(last.new_ids);
  json["finish_reason"] = to_string(last.finish_reason);
  json["ttft_ms"] = number_or_null(timings.ttft_ms());
  json["prefill_tokens_per_s"] = number_or_null(timings.prefill_tokens_per_s());
  json["decode_tokens_per_s"] = decode_rate ? number_or_null(*decode_rate) : Json(nullptr);
  json["tokens_per_s"] = number_or_null(timings.tokens_per_s());
  json["kv_bytes"] = said.kv_bytes;
  json["min_margin"] = number_or_null(said.min_margin());
  if (options.logits) json["last_logits"] = logits_json(last.last_logits[0]);
  if (said.inputs.size() > 1) json["turns"] = turns_json(said);
  return json.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvbook

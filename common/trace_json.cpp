#include "common/trace_json.h"

#include <nlohmann/json.hpp>

#include "common/console_text.h"

namespace kvbook {
namespace {

nlohmann::ordered_json visible_rows(const torch::Tensor& visible) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const torch::Tensor numbers = visible.to(torch::kInt64).contiguous();
  const int64_t* at = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.size(0); ++i, at += numbers.size(1)) {
    rows.push_back(std::vector<int64_t>(at, at + numbers.size(1)));
  }
  return rows;
}

}  // namespace

std::string trace_json(const Chapter& chapter, const std::string& model, const Tokenizer* tokenizer,
                       const std::vector<TracedForward>& forwards) {
  nlohmann::ordered_json json = {{"chapter", chapter.name}, {"model", model}};
  json["forwards"] = nlohmann::ordered_json::array();
  for (const TracedForward& forward : forwards) {
    nlohmann::ordered_json entry;
    if (forward.row) entry["row"] = *forward.row;
    if (!forward.layers.empty()) entry["layers"] = forward.layers;
    entry["first_position"] = forward.first_position;
    entry["ids"] = forward.ids;
    entry["text"] = nullptr;
    if (tokenizer != nullptr) entry["text"] = readable(tokenizer, forward.ids);
    entry["keys"] = forward.keys;
    entry["after"] = forward.after;
    entry["visible"] = visible_rows(forward.visible);
    entry["bytes"] = forward.bytes;
    json["forwards"].push_back(std::move(entry));
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvbook

#include "tests/support/golden.h"

#include <fstream>

namespace kvbook {
namespace {

std::filesystem::path golden_folder() { return std::filesystem::path(KVBOOK_DATA_FOLDER) / "golden"; }

}  // namespace

Checkpoint golden_checkpoint(const std::string& name, torch::ScalarType dtype) {
  return load_checkpoint(golden_folder() / name, dtype);
}

nlohmann::json golden_json(const std::string& path) {
  std::ifstream file(golden_folder() / path);
  TORCH_CHECK(file.good(), "cannot read the golden file ", path);
  return nlohmann::json::parse(file);
}

torch::Tensor tensor_of(const nlohmann::json& nested) {
  if (!nested.is_array()) return torch::tensor(nested.get<double>(), torch::kFloat64);
  std::vector<torch::Tensor> parts;
  for (const auto& part : nested) parts.push_back(tensor_of(part));
  return torch::stack(parts);
}

std::vector<GoldenRun> golden_runs(const std::string& name, const std::string& kind) {
  const nlohmann::json golden = golden_json(name + "/golden.json");
  std::vector<GoldenRun> runs;
  for (const auto& entry : golden.at(kind)) {
    GoldenRun run{.window = std::nullopt,
                  .windows = {},
                  .prompt = entry.at("prompt"),
                  .ids = entry.at("ids"),
                  .last_logits = entry.at("last_logits"),
                  .end_logits = entry.at("end_logits")};
    if (entry.contains("window")) run.window = entry.at("window").get<int64_t>();
    for (const auto& window : entry.value("windows", nlohmann::json::array())) {
      run.windows.push_back(window.is_null() ? 0 : window.get<int64_t>());
    }
    runs.push_back(run);
  }
  TORCH_CHECK(!runs.empty(), "no golden run of kind ", kind, " for ", name);
  return runs;
}

}  // namespace kvbook

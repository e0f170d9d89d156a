#include "common/throughput.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "common/drawn_requests.h"
#include "common/generate.h"
#include "common/identity.h"
#include "common/ids.h"
#include "common/measured_cache.h"
#include "common/progress.h"

namespace kvbook {
namespace {

constexpr int64_t kWarmUpTokens = 8;
constexpr int64_t kStepsBesideLinear = 25;
constexpr int64_t kTableWindow = 256;

std::unique_ptr<KVCache> make_cache(const TableEntry& entry, const ModelShape& shape) {
  CacheOptions options = default_cache_options(shape);
  options.window = entry.window.value_or(options.window);
  for (int64_t layer = 0; layer < shape.layers && entry.in_every_other; ++layer) {
    options.layer_windows.push_back(layer % 2 == 0 ? options.window : 0);
  }
  return entry.chapter->make_cache(shape, options);
}

/// One generation of one row, with the cache's stop-watch beside it.
struct Run {
  Generation generation;
  std::vector<MeasuredCache::Forward> forwards = {};  // the prompt's first; empty without a cache
  int64_t kv_bytes = 0;
};

Run run_once(const TableEntry& entry, const Checkpoint& checkpoint, Gpt2& model, const Workload& workload,
             int64_t new_tokens) {
  GenerateOptions options;
  options.new_tokens = new_tokens;
  const torch::Tensor prompt = to_row(workload.prompt);
  if (!entry.chapter->make_cache) {
    return {.generation = entry.chapter->open_uncached(checkpoint)->generate(prompt, options)};
  }
  const auto cache = make_cache(entry, model->shape());
  MeasuredCache measured(*cache);
  Run run{.generation = generate(model, measured, prompt, options)};
  run.forwards = measured.forwards();
  run.kv_bytes = measured.bytes();
  return run;
}

void add_samples(Samples& samples, const Run& run) {
  const Timings& timings = run.generation.timings;
  samples.repetitions += 1;
  samples.ttft_ms.push_back(timings.ttft_ms());
  samples.tokens_per_s.push_back(timings.tokens_per_s());
  for (const double ms : timings.step_ms()) samples.step_ms.push_back(ms);
  for (size_t i = 0; i < run.forwards.size(); ++i) {
    if (i > 0) samples.cache_step_ms.push_back(1e3 * run.forwards[i].seconds);
    samples.peak_bytes = std::max(samples.peak_bytes, run.forwards[i].peak_bytes);
  }
  samples.kv_bytes = run.kv_bytes;
  const std::vector<int64_t> ids = to_ids(run.generation.new_ids);
  if (samples.repetitions == 1) samples.new_ids = ids;
  samples.repeatable = samples.repeatable && ids == samples.new_ids;
  samples.min_margin = run.generation.min_margin;
}

/// Every at::linear call of one decode step on inputs of the right size, and nothing else of it.
class LinearCallsAlone {
 public:
  LinearCallsAlone(Gpt2& model, torch::ScalarType dtype)
      : model_(model), last_input_(torch::ones({1, model->config().embedding}, dtype)) {
    for (const auto& module : model->modules()) {
      auto* layer = module->as<Conv1D>();
      if (layer != nullptr) calls_.emplace_back(layer, torch::ones({1, 1, layer->inputs()}, dtype));
    }
  }

  void run() const {
    const at::NoGradGuard no_grad;
    for (const auto& [layer, input] : calls_) layer->forward(input);
    model_->logits(last_input_);
  }

 private:
  Gpt2& model_;
  std::vector<std::pair<const Conv1DImpl*, torch::Tensor>> calls_;
  torch::Tensor last_input_;
};

/// Decode steps around the middle of the generation, each followed by its at::linear calls alone: both see the same
/// machine, and the cache is as full as in the median step of the table.
void measure_beside_linear(Samples& samples, Gpt2& model, const Workload& workload, torch::ScalarType dtype) {
  const int64_t steps = std::min(kStepsBesideLinear, workload.new_tokens - 1);
  if (steps < 1) return;
  const auto cache = make_cache(samples.entry, model->shape());
  std::vector<int64_t> prompt = workload.prompt;
  const auto middle = samples.new_ids.begin() + (workload.new_tokens - steps) / 2;
  prompt.insert(prompt.end(), samples.new_ids.begin(), middle);
  const GenerateOptions options{.new_tokens = steps + 1};
  GreedyDecoder decoder(options, static_cast<int64_t>(prompt.size()), steps + 1);
  torch::Tensor next = decoder.choose(model->logits(model->hidden({to_row(prompt)}, *cache).select(1, -1)));
  const LinearCallsAlone linear_calls(model, dtype);
  while (!decoder.finished()) {
    const double start = steady_seconds();
    next = decoder.choose(model->logits(model->hidden({next}, *cache).select(1, -1)));
    const double between = steady_seconds();
    linear_calls.run();
    samples.step_beside_linear_ms.push_back(1e3 * (between - start));
    samples.linear_ms.push_back(1e3 * (steady_seconds() - between));
  }
}

int64_t new_tokens_of(const TableEntry& entry, const Workload& workload) {
  return entry.chapter->make_cache ? workload.new_tokens : workload.uncached_new_tokens;
}

WorkloadResult measure_workload(const ThroughputPlan& plan, const Checkpoint& checkpoint, Gpt2& model,
                                const Workload& workload) {
  WorkloadResult result{workload, {}};
  for (const TableEntry& entry : plan.entries) result.rows.push_back({.entry = entry});
  Progress progress(fmt::format("measuring {} + {} tokens", workload.prompt.size(), workload.new_tokens),
                    static_cast<int64_t>(plan.entries.size()) * (plan.repetitions + 1));
  for (const TableEntry& entry : plan.entries) {
    run_once(entry, checkpoint, model, workload, std::min(kWarmUpTokens, new_tokens_of(entry, workload)));
    progress.advance();
  }
  const size_t rows = result.rows.size();
  for (int repetition = 0; repetition < plan.repetitions; ++repetition) {
    for (size_t i = 0; i < rows; ++i) {
      Samples& row = result.rows[(i + static_cast<size_t>(repetition)) % rows];
      const bool once = !row.entry.chapter->make_cache && workload.uncached_new_tokens < workload.new_tokens;
      if (row.repetitions == 0 || !once) {
        add_samples(row, run_once(row.entry, checkpoint, model, workload, new_tokens_of(row.entry, workload)));
      }
      progress.advance();
    }
  }
  const torch::ScalarType dtype = checkpoint.weights.at("wte.weight").scalar_type();
  for (auto row = result.rows.rbegin(); row != result.rows.rend(); ++row) {
    if (!row->entry.chapter->make_cache || row->entry.window) continue;
    measure_beside_linear(*row, model, workload, dtype);
    if (plan.repetitions == 1) break;  // the quick form shows the last chapter's
  }
  return result;
}

}  // namespace

std::string TableEntry::label() const {
  if (!window) return chapter->name;
  return fmt::format(fmt::runtime(in_every_other ? "{}, {} / full" : "{}, W = {}"), chapter->name, *window);
}

std::vector<TableEntry> table_entries(const std::vector<Chapter>& list) {
  std::vector<TableEntry> entries;
  for (const Chapter& chapter : list) {
    entries.push_back({&chapter, std::nullopt});
    if (chapter.takes_window) entries.push_back({&chapter, kTableWindow});
    if (chapter.takes_layer_windows) entries.push_back({&chapter, kTableWindow, /*in_every_other=*/true});
  }
  return entries;
}

Workload reference_workload(const std::vector<int64_t>& prompt, int64_t new_tokens, const Gpt2Config& config) {
  const int64_t possible = std::min(new_tokens, room_after(static_cast<int64_t>(prompt.size()), config.context));
  return {prompt, possible, possible};
}

Workload drawn_workload(int64_t prompt_tokens, const Gpt2Config& config) {
  std::mt19937_64 draw(static_cast<uint64_t>(prompt_tokens));
  return {.prompt = drawn_ids(draw, prompt_tokens, config.vocabulary), .new_tokens = 32, .uncached_new_tokens = 4};
}

ThroughputResult measure_throughput(const ThroughputPlan& plan, const Checkpoint& checkpoint, int threads) {
  Gpt2 model(checkpoint);
  ThroughputResult result{.model = "",
                          .dtype = checkpoint.weights.at("wte.weight").scalar_type(),
                          .threads = threads,
                          .machine = describe_machine(),
                          .read_bandwidth = measure_read_bandwidth(threads),
                          .weight_bytes = weight_bytes_per_token(checkpoint),
                          .workloads = {}};
  for (const Workload& workload : plan.workloads) {
    result.workloads.push_back(measure_workload(plan, checkpoint, model, workload));
  }
  return result;
}

int64_t weight_bytes_per_token(const Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const auto& [name, weight] : checkpoint.weights) {
    if (name != "wpe.weight") bytes += static_cast<int64_t>(weight.nbytes());
  }
  return bytes;
}

std::optional<bool> has_same_tokens(const ThroughputResult& result, const WorkloadResult& workload,
                                    const Samples& row) {
  const int64_t positions = static_cast<int64_t>(workload.workload.prompt.size()) + workload.workload.new_tokens - 1;
  const auto window = [&](const Samples& r) { return std::min(r.entry.window.value_or(positions), positions); };
  const auto sees = [&](const Samples& r) {
    return std::pair(window(r), r.entry.in_every_other && window(r) < positions);
  };
  if (!promises_same_tokens(result.dtype)) return std::nullopt;
  if (!row.repeatable) return false;
  if (!row.entry.chapter->rounds.empty()) return std::nullopt;
  bool compared = window(row) == positions;  // the first row of a window that hides some has nothing to be held to
  for (const Samples& above : workload.rows) {
    if (&above == &row) break;
    if (sees(above) != sees(row) || !above.entry.chapter->rounds.empty()) continue;
    compared = true;
    const size_t both = std::min(above.new_ids.size(), row.new_ids.size());  // chapter 1 may have fewer tokens
    const auto end = above.new_ids.begin() + static_cast<int64_t>(both);
    if (!std::equal(above.new_ids.begin(), end, row.new_ids.begin())) return false;
  }
  return compared ? std::optional<bool>(true) : std::nullopt;
}

double median(std::vector<double> values) {
  TORCH_CHECK_VALUE(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double percentile_99(std::vector<double> values) {
  TORCH_CHECK_VALUE(!values.empty(), "a percentile of nothing");
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::ceil(0.99 * static_cast<double>(values.size()))) - 1];
}

}  // namespace kvbook

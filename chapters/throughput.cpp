// build/bin/throughput: the throughput table in full, at two lengths, at many, or at several windows, with raw samples
// as JSON.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "chapters/chapters.h"
#include "common/model_source.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "common/throughput_table.h"

namespace kvbook {
namespace {

struct ThroughputOptions {
  std::string model = "gpt2-random", dtype = "float32", json;
  int64_t threads = usable_cores();
  bool quick = false, lengths = false, windows = false;
};

std::optional<ThroughputOptions> parse_throughput(int argc, char** argv) {
  ThroughputOptions options;
  CLI::App app("The throughput table of all chapters, at 4 + 200 and 968 + 32 tokens", "throughput");
  app.add_option("--model", options.model, "gpt2-random or gpt2")->capture_default_str();
  app.add_option("--dtype", options.dtype, "float32, float64 or bfloat16")->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the matrix products")
      ->capture_default_str()
      ->check(whole_number_fault);
  app.add_flag("--quick", options.quick, "one repetition, no spread");
  CLI::Option* lengths =
      app.add_flag("--lengths", options.lengths, "at prompts of 32 to 992 tokens instead, three repetitions");
  app.add_flag("--windows", options.windows, "512 + 512 tokens at windows of 128, 256 and 512, three repetitions")
      ->excludes(lengths);
  app.add_option("--json", options.json, "write raw samples to this file");
  if (!parse_or_help(app, argc, argv)) return std::nullopt;
  if (options.model != "gpt2-random" && options.model != "gpt2") {
    throw UsageError(fmt::format("--model is gpt2-random or gpt2 here, not '{}'", options.model));
  }
  check_threads(options.threads);
  if (options.json == "-") throw UsageError("--json takes a file's name here: the table goes to standard output");
  if (!options.json.empty()) check_output(options.json);
  return options;
}

/// Two lengths: a short prompt as in published tables, and a long one, where copying shows.
std::vector<Workload> two_lengths(const Gpt2Config& config) {
  return {reference_workload(kHelloIAm, 200, config), drawn_workload(968, config)};
}

/// Enough lengths to draw a line through them.
std::vector<Workload> many_lengths(const Gpt2Config& config) {
  std::vector<Workload> workloads;
  for (const int64_t tokens : {32, 128, 256, 384, 512, 768, 992}) workloads.push_back(drawn_workload(tokens, config));
  return workloads;
}

/// Positions 512 to 1,023 (the last new token is not fed): every window is full in all of them.
std::vector<Workload> past_the_windows(const Gpt2Config& config) {
  Workload workload = drawn_workload(512, config);
  workload.new_tokens = 512;
  workload.uncached_new_tokens = 1;
  return {workload};
}

/// The uncached chapter, which the others are held to, and those that take a window, at each of these.
std::vector<TableEntry> window_entries(const std::vector<Chapter>& list) {
  std::vector<TableEntry> entries = {{&list.front(), std::nullopt}};
  for (const int64_t window : {128, 256, 512}) {
    for (const Chapter& chapter : list) {
      if (chapter.takes_window) entries.push_back({&chapter, window});
    }
  }
  return entries;
}

ThroughputPlan plan_of(const ThroughputOptions& options, const Gpt2Config& config) {
  ThroughputPlan plan{.entries = table_entries(chapters()), .workloads = two_lengths(config), .repetitions = 5};
  if (options.lengths) plan.workloads = many_lengths(config);
  if (options.windows) {
    plan.entries = window_entries(chapters());
    plan.workloads = past_the_windows(config);
  }
  if (options.lengths || options.windows) plan.repetitions = 3;
  if (options.quick) plan.repetitions = 1;
  return plan;
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("throughput", [&] {
    const auto options = parse_throughput(argc, argv);
    if (!options) return 0;
    at::set_num_threads(static_cast<int>(options->threads));
    const NamedModel model = [&] {
      const Progress progress("loading " + options->model, 0);
      return open_model(options->model, parse_dtype(options->dtype));
    }();
    const ThroughputPlan plan = plan_of(*options, model.checkpoint.config);
    return print_throughput(plan, model, static_cast<int>(options->threads), options->json);
  });
}

// build/bin/throughput: the throughput table in full, at two lengths or at many, with raw samples as JSON.
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
  bool quick = false, lengths = false;
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
  app.add_flag("--lengths", options.lengths, "at prompts of 32 to 992 tokens instead, three repetitions");
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
    const Gpt2Config& config = model.checkpoint.config;
    const ThroughputPlan plan{.entries = table_entries(chapters()),
                              .workloads = options->lengths ? many_lengths(config) : two_lengths(config),
                              .repetitions = options->quick ? 1 : (options->lengths ? 3 : 5)};
    return print_throughput(plan, model, static_cast<int>(options->threads), options->json);
  });
}

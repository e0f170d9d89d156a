// build/bin/throughput: the throughput table in full, at both lengths, with raw samples as JSON.
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
  bool quick = false;
};

std::optional<ThroughputOptions> parse_throughput(int argc, char** argv) {
  ThroughputOptions options;
  CLI::App app("The throughput table of all chapters, 4 + 200 and 968 + 32 tokens", "throughput");
  app.add_option("--model", options.model, "gpt2-random or gpt2")->capture_default_str();
  app.add_option("--dtype", options.dtype, "float32, float64 or bfloat16")->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the matrix products")
      ->capture_default_str()
      ->check(whole_number_fault);
  app.add_flag("--quick", options.quick, "one repetition, no spread");
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
    const ThroughputPlan plan{.entries = table_entries(chapters()),
                              .workloads = {reference_workload(kHelloIAm, 200, model.checkpoint.config),
                                            long_workload(model.checkpoint.config)},
                              .repetitions = options->quick ? 1 : 5};
    return print_throughput(plan, model, static_cast<int>(options->threads), options->json);
  });
}

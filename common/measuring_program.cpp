#include "common/measuring_program.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "common/cli.h"
#include "common/machine.h"
#include "common/model_source.h"
#include "common/output_file.h"
#include "common/progress.h"

namespace kvbook {
namespace {

constexpr int64_t kLeastContext = 256;

std::optional<MeasuringOptions> parse_measuring(int argc, const char* const* argv, const std::string& name,
                                                const std::string& description) {
  MeasuringOptions options{.model = "gpt2-random", .json = "", .threads = usable_cores()};
  CLI::App app(description, name);
  app.add_option("--model", options.model, "gpt2-random, gpt2, tales or a folder")->capture_default_str();
  for (const auto& [flag, value, words] :
       {std::tuple<const char*, int64_t*, const char*>{"--threads", &options.threads, "threads of the matrix products"},
        {"--repetitions", &options.repetitions, "of everything, after a warm-up"},
        {"--steps", &options.steps, "decode steps in each"}}) {
    app.add_option(flag, *value, words)->capture_default_str()->check(whole_number_fault);
  }
  app.add_option("--json", options.json, "write raw samples to this file");
  if (!parse_or_help(app, argc, argv)) return std::nullopt;
  check_threads(options.threads);
  for (const auto& [flag, value] : {std::pair{"--repetitions", options.repetitions}, {"--steps", options.steps}}) {
    if (value < 1 || value > 16) throw UsageError(fmt::format("{} must be between 1 and 16, not {}", flag, value));
  }
  if (options.json == "-") throw UsageError("--json takes a file's name here: the tables go to standard output");
  if (!options.json.empty()) check_output(options.json);
  return options;
}

}  // namespace

int run_measuring_program(int argc, const char* const* argv, const std::string& name, const std::string& description,
                          const Measurement& measure) {
  return exit_status_of(name, [&] {
    const auto options = parse_measuring(argc, argv, name, description);
    if (!options) return 0;
    at::set_num_threads(static_cast<int>(options->threads));
    const Machine machine = describe_machine();
    const NamedModel model = [&] {
      const Progress progress("loading " + options->model, 0);
      return open_model(options->model, torch::kFloat32);
    }();
    if (model.checkpoint.config.context < kLeastContext) {
      throw UsageError(fmt::format("the context of '{}' is {}: take a model with one of {} or more", options->model,
                                   model.checkpoint.config.context, kLeastContext));
    }
    fmt::print("model {} · {} threads · float32 · {} · source tree at {}\n", options->model, options->threads,
               machine.cpu, machine.commit);
    Gpt2 gpt2(model.checkpoint);
    nlohmann::ordered_json json = {
        {"model", options->model},
        {"threads", options->threads},
        {"repetitions", options->repetitions},
        {"steps", options->steps},
        {"machine", {{"cpu", machine.cpu}, {"libtorch", machine.libtorch}, {"commit", machine.commit}}}};
    measure(gpt2, *options, json);
    if (!options->json.empty()) write_output(options->json, json.dump(1) + "\n");
    return 0;
  });
}

}  // namespace kvbook

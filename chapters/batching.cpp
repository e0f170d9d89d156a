// build/bin/batching: what several rows at once are worth, and how much of what they compute is padding. Raw samples as
// JSON.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "chapters/chapters.h"
#include "common/batch_generation.h"
#include "common/drawn_requests.h"
#include "common/generate.h"
#include "common/ids.h"
#include "common/machine.h"
#include "common/measured_cache.h"
#include "common/model_source.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "common/throughput.h"

namespace kvbook {
namespace {

using Json = nlohmann::ordered_json;

struct BatchingOptions {
  std::string model = "gpt2-random", json;
  int64_t threads = usable_cores(), repetitions = 3, prompt = 32, new_tokens = 64, requests = 64, rows = 8;
};

std::unique_ptr<KVCache> ragged_cache(const ModelShape& shape, int64_t rows) {
  return find_chapter("07_ragged_batch")
      .make_cache(shape, {.window = shape.context, .capacity = shape.context, .rows = rows});
}

// ---- several rows beside one ----------------------------------------------------------------------------------------

/// Repetitions of B rows together, and of the first of them alone, in turn.
struct BatchSamples {
  int64_t rows = 0;
  std::vector<double> tokens_per_s = {}, solo_tokens_per_s = {};  // end to end, a repetition each
  std::vector<double> step_ms = {}, cache_step_ms = {}, solo_step_ms = {};
  std::vector<double> product_ms = {};  // one product of the model's largest layer with B rows, alone
  int64_t kv_bytes = 0;
  bool same_tokens = true;
};

/// x·Wᵀ as the model's linear layers have it, [B, E] with [4E, E], on enough weights that no cache holds them all.
void measure_product(BatchSamples& samples, Gpt2& model, torch::ScalarType dtype) {
  const int64_t E = model->config().embedding;
  std::vector<torch::Tensor> weights;
  for (int64_t i = 0; i < 3 * model->config().layers; ++i) {
    weights.push_back(torch::randn({4 * E, E}, torch::kFloat32).to(dtype));
  }
  const torch::Tensor x = torch::randn({samples.rows, E}, torch::kFloat32).to(dtype);
  for (int round = 0; round < 4; ++round) {  // the first warms up
    const double start = steady_seconds();
    for (const torch::Tensor& weight : weights) at::linear(x, weight);
    const double ms = 1e3 * (steady_seconds() - start) / static_cast<double>(weights.size());
    if (round > 0) samples.product_ms.push_back(ms);
  }
}

void measure_once(BatchSamples& samples, Gpt2& model, const std::vector<Request>& requests, bool keep) {
  const auto cache = ragged_cache(model->shape(), samples.rows);
  MeasuredCache measured(*cache);
  const BatchGeneration together = generate_batch(model, measured, requests, {.rows = samples.rows});
  const auto solo_cache =
      find_chapter("04_preallocated").make_cache(model->shape(), default_cache_options(model->shape()));
  const Generation solo =
      generate(model, *solo_cache, to_row(requests[0].prompt), {.new_tokens = requests[0].new_tokens});
  samples.same_tokens = samples.same_tokens && solo.new_ids.equal(together.answers[0].new_ids);
  if (!keep) return;
  samples.tokens_per_s.push_back(together.tokens_per_s());
  samples.solo_tokens_per_s.push_back(solo.timings.tokens_per_s());
  for (const double ms : together.answers.back().timings.step_ms()) samples.step_ms.push_back(ms);
  for (const double ms : solo.timings.step_ms()) samples.solo_step_ms.push_back(ms);
  for (size_t i = 1; i < measured.forwards().size(); ++i) {  // the first is the prompts'
    samples.cache_step_ms.push_back(1e3 * measured.forwards()[i].seconds);
  }
  samples.kv_bytes = cache->bytes();
}

std::vector<BatchSamples> measure_batches(const NamedModel& model, const BatchingOptions& options) {
  Gpt2 gpt2(model.checkpoint);
  std::mt19937_64 draw(7);
  std::vector<Request> requests;
  std::vector<BatchSamples> all;
  for (const int64_t rows : {1, 2, 4, 8, 16}) all.push_back({.rows = rows});
  for (int64_t i = 0; i < all.back().rows; ++i) {
    requests.push_back({drawn_ids(draw, options.prompt, gpt2->shape().vocabulary), options.new_tokens});
  }
  Progress progress("batches", static_cast<int64_t>(all.size()) * (options.repetitions + 1));
  for (int64_t repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
    for (BatchSamples& samples : all) {
      if (repetition > 0) measure_product(samples, gpt2, model.checkpoint.weights.at("wte.weight").scalar_type());
      std::vector<Request> first(requests.begin(), requests.begin() + samples.rows);
      if (repetition == 0) {
        for (Request& request : first) request.new_tokens = 4;
      }
      measure_once(samples, gpt2, first, repetition > 0);
      progress.advance();
    }
  }
  return all;
}

void print_batches(const std::vector<BatchSamples>& all, const std::string& dtype) {
  fmt::print("\n{}\n{:>5} {:>10} {:>11} {:>11} {:>10} {:>12} {:>11} {:>8} {:>8}\n", dtype, "rows", "tok/s", "ms a step",
             "product ms", "cache ms", "alone tok/s", "ms a step", "times", "KV MB");
  for (const BatchSamples& s : all) {
    fmt::print("{:>5} {:>10.1f} {:>11.1f} {:>11.2f} {:>10.2f} {:>12.1f} {:>11.1f} {:>8.2f} {:>8.1f}\n", s.rows,
               median(s.tokens_per_s), median(s.step_ms), median(s.product_ms), median(s.cache_step_ms),
               median(s.solo_tokens_per_s), median(s.solo_step_ms),
               median(s.tokens_per_s) / median(s.solo_tokens_per_s), s.kv_bytes / 1e6);
  }
}

Json batches_json(const std::vector<BatchSamples>& all) {
  Json json = Json::array();
  for (const BatchSamples& s : all) {
    json.push_back({{"rows", s.rows},
                    {"tokens_per_s", s.tokens_per_s},
                    {"step_ms", s.step_ms},
                    {"cache_step_ms", s.cache_step_ms},
                    {"product_ms", s.product_ms},
                    {"solo_tokens_per_s", s.solo_tokens_per_s},
                    {"solo_step_ms", s.solo_step_ms},
                    {"kv_bytes", s.kv_bytes},
                    {"same_tokens", s.same_tokens}});
  }
  return json;
}

// ---- how much is padding --------------------------------------------------------------------------------------------

std::vector<Request> drawn_requests(const BatchingOptions& options, int64_t vocabulary) {
  std::mt19937_64 draw(64);
  std::vector<Request> requests;
  for (int64_t i = 0; i < options.requests; ++i) {
    const int64_t prompt = drawn_length(draw, 48, 0.8, 4, 256), answer = drawn_length(draw, 24, 0.8, 1, 96);
    requests.push_back({drawn_ids(draw, prompt, vocabulary), answer});
  }
  return requests;
}

struct Policy {
  std::string name;
  Batching batching;
  bool by_length;
};

struct PaddingSamples {
  Policy policy;
  int64_t forwards = 0, real_tokens = 0, padding_tokens = 0;
  std::vector<double> seconds = {};  // a repetition each
};

std::vector<PaddingSamples> measure_padding(const NamedModel& model, const BatchingOptions& options) {
  Gpt2 gpt2(model.checkpoint);
  const std::vector<Request> arrived = drawn_requests(options, gpt2->shape().vocabulary);
  std::vector<PaddingSamples> all;
  all.push_back({.policy = {"padded, as they came", Batching::kStatic, false}});
  all.push_back({.policy = {"padded, grouped by length", Batching::kStatic, true}});
  all.push_back({.policy = {"continuous", Batching::kContinuous, false}});
  Progress progress("padding", static_cast<int64_t>(all.size()) * options.repetitions);
  for (int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
    for (PaddingSamples& samples : all) {
      std::vector<Request> requests = arrived;
      if (samples.policy.by_length) {
        std::stable_sort(requests.begin(), requests.end(),
                         [](const Request& a, const Request& b) { return a.prompt.size() < b.prompt.size(); });
      }
      const auto cache = ragged_cache(gpt2->shape(), options.rows);
      const double start = steady_seconds();
      const BatchGeneration done =
          generate_batch(gpt2, *cache, requests, {.rows = options.rows, .batching = samples.policy.batching});
      samples.seconds.push_back(steady_seconds() - start);
      samples.forwards = done.forwards;
      samples.real_tokens = done.real_tokens;
      samples.padding_tokens = done.padding_tokens;
      progress.advance();
    }
  }
  return all;
}

void print_padding(const std::vector<PaddingSamples>& all, const BatchingOptions& options) {
  fmt::print("\n{} requests, {} at once\n{:<28} {:>9} {:>8} {:>9} {:>10} {:>9}\n", options.requests, options.rows, "",
             "forwards", "fed", "padding", "share", "seconds");
  for (const PaddingSamples& s : all) {
    fmt::print("{:<28} {:>9} {:>8} {:>9} {:>8.1f} % {:>9.1f}\n", s.policy.name, s.forwards, s.real_tokens,
               s.padding_tokens,
               100.0 * static_cast<double>(s.padding_tokens) / static_cast<double>(s.real_tokens + s.padding_tokens),
               median(s.seconds));
  }
}

Json padding_json(const std::vector<PaddingSamples>& all) {
  Json json = Json::array();
  for (const PaddingSamples& s : all) {
    json.push_back({{"policy", s.policy.name},
                    {"forwards", s.forwards},
                    {"real_tokens", s.real_tokens},
                    {"padding_tokens", s.padding_tokens},
                    {"seconds", s.seconds}});
  }
  return json;
}

std::optional<BatchingOptions> parse_batching(int argc, char** argv) {
  BatchingOptions options;
  CLI::App app("Several rows at once: throughput by batch size, and how much of the work is padding", "batching");
  app.add_option("--model", options.model, "gpt2-random, gpt2, tales or a folder")->capture_default_str();
  const auto number = [&](const std::string& flag, int64_t& value, const std::string& words) {
    app.add_option(flag, value, words)->capture_default_str()->check(whole_number_fault);
  };
  number("--threads", options.threads, "threads of the matrix products");
  number("--repetitions", options.repetitions, "of everything, after a warm-up");
  number("--prompt-tokens", options.prompt, "of each prompt, by batch size");
  number("--new-tokens", options.new_tokens, "of each answer, by batch size");
  number("--requests", options.requests, "of unequal length, for the padding");
  number("--rows", options.rows, "of these at once");
  app.add_option("--json", options.json, "write raw samples to this file");
  if (!parse_or_help(app, argc, argv)) return std::nullopt;
  check_threads(options.threads);
  for (const auto& [flag, value] : {std::pair{"--repetitions", options.repetitions},
                                    {"--prompt-tokens", options.prompt},
                                    {"--new-tokens", options.new_tokens},
                                    {"--requests", options.requests},
                                    {"--rows", options.rows}}) {
    if (value < 1) throw UsageError(fmt::format("{} must be at least 1, not {}", flag, value));
  }
  if (options.json == "-") throw UsageError("--json takes a file's name here: the tables go to standard output");
  if (!options.json.empty()) check_output(options.json);
  return options;
}

NamedModel loaded(const std::string& name, torch::ScalarType dtype) {
  const Progress progress("loading " + name, 0);
  return open_model(name, dtype);
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("batching", [&] {
    const auto options = parse_batching(argc, argv);
    if (!options) return 0;
    at::set_num_threads(static_cast<int>(options->threads));
    const Machine machine = describe_machine();
    fmt::print("model {} · {} threads · {} + {} tokens a row · {} · source tree at {}\n", options->model,
               options->threads, options->prompt, options->new_tokens, machine.cpu, machine.commit);
    Json json = {{"model", options->model},
                 {"threads", options->threads},
                 {"prompt_tokens", options->prompt},
                 {"new_tokens", options->new_tokens},
                 {"requests", options->requests},
                 {"rows", options->rows},
                 {"repetitions", options->repetitions},
                 {"machine", {{"cpu", machine.cpu}, {"libtorch", machine.libtorch}, {"commit", machine.commit}}}};
    bool same = true;
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      const NamedModel model = loaded(options->model, dtype);
      const std::vector<BatchSamples> batches = measure_batches(model, *options);
      print_batches(batches, dtype_name(dtype));
      json["batches"][dtype_name(dtype)] = batches_json(batches);
      for (const BatchSamples& samples : batches) same = same && (samples.same_tokens || dtype == torch::kBFloat16);
      if (dtype != torch::kFloat32) continue;
      const std::vector<PaddingSamples> padding = measure_padding(model, *options);
      print_padding(padding, *options);
      json["padding"] = padding_json(padding);
    }
    if (!options->json.empty()) write_output(options->json, json.dump(1) + "\n");
    return same ? 0 : 1;
  });
}

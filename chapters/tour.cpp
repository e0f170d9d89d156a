// build/bin/tour: one story told by every chapter, token for token the same, then the throughput table.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "chapters/chapters.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/throughput_table.h"

namespace kvbook {
namespace {

struct TourOptions {
  bool quick = false;
  int64_t new_tokens = 200;
  int threads = 1;
};

/// Returns the exit status: 1 if a chapter tells another story.
int tell_one_story(const TourOptions& tour) {
  ProgramOptions options;
  options.new_tokens = tour.new_tokens;
  options.threads = tour.threads;
  const NamedModel model = open_model("tales", options.dtype);
  const std::vector<std::vector<int64_t>> inputs = {default_prompt(model)};

  fmt::print("One story, {} chapters: model tales\n\n", chapters().size());
  const Conversation first = tell(chapters().front(), model, options, inputs);
  fmt::print("\n{} new tokens\n", first.last().new_ids.size(1));

  // The story's own steps waited for the terminal, so the first chapter runs once more for its rate.
  int status = 0;
  double naive = 0;
  for (const Chapter& chapter : chapters()) {
    warm_up(chapter, model, options, inputs.front());
    const Conversation said = converse_quietly(chapter, model, options, inputs);
    const bool same = same_tokens(said, first);
    const double rate = said.last().timings.tokens_per_s();
    if (naive == 0) naive = rate;
    fmt::print("{:<20} {}: same tokens: {}, {:.0f} tok/s, {:.1f} times\n", chapter.name, chapter.change,
               same ? "yes" : (chapter.rounds.empty() ? "NO" : "no, not promised"), rate, rate / naive);
    if (!same && chapter.rounds.empty()) status = 1;
  }
  fmt::print("\n");
  std::fflush(stdout);
  return status;
}

std::optional<TourOptions> parse_tour(int argc, char** argv) {
  TourOptions tour;
  int64_t threads = usable_cores();
  CLI::App app("One story told by every chapter, then the throughput table on the 124M shape", "tour");
  app.add_flag("--quick", tour.quick, "one repetition a chapter, no spread");
  app.add_option("--new-tokens", tour.new_tokens, "how many to generate, in story and table")
      ->capture_default_str()
      ->check(whole_number_fault);
  app.add_option("--threads", threads, "threads of the matrix products")
      ->capture_default_str()
      ->check(whole_number_fault);
  if (!parse_or_help(app, argc, argv)) return std::nullopt;
  if (tour.new_tokens < 1) throw UsageError(fmt::format("--new-tokens must be at least 1, not {}", tour.new_tokens));
  check_threads(threads);
  tour.threads = static_cast<int>(threads);
  return tour;
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("tour", [&] {
    const auto tour = parse_tour(argc, argv);
    if (!tour) return 0;
    at::set_num_threads(tour->threads);
    const int story = tell_one_story(*tour);

    const NamedModel model = [] {
      const Progress progress("making the weights of gpt2-random", 0);
      return open_model("gpt2-random", torch::kFloat32);
    }();
    const ThroughputPlan plan{.entries = table_entries(chapters()),
                              .workloads = {reference_workload(kHelloIAm, tour->new_tokens, model.checkpoint.config)},
                              .repetitions = tour->quick ? 1 : 5};
    const int table = print_throughput(plan, model, tour->threads, "");
    return std::max(story, table);
  });
}

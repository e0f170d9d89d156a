#include "workshop/checker/run_workshop.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "common/cli.h"
#include "workshop/checker/checked_cache.h"
#include "workshop/checker/report.h"

namespace kvbook {
namespace {

struct WorkshopOptions {
  std::string cache;
  std::optional<int64_t> property = {};  // its number; undefined: all of them
  int64_t seconds = 20;
  bool strict = false;
};

std::optional<WorkshopOptions> parse(int argc, const char* const* argv, const std::string& default_cache) {
  WorkshopOptions options{.cache = default_cache};
  CLI::App app("workshop: holds a cache to what the chapters promise", "workshop");
  app.add_option("cache", options.cache, "my_cache, a chapter such as 04_preallocated, or a step of workshop/README.md")
      ->capture_default_str();
  app.add_option("--property", options.property, "run this one only, in this process, with all output")
      ->check(whole_number_fault);
  app.add_option("--seconds", options.seconds, "after how long a property that does not end is given up")
      ->capture_default_str()
      ->check(whole_number_fault);
  app.add_flag("--strict", options.strict, "exit status 1 unless everything holds");
  if (!parse_or_help(app, argc, argv)) return std::nullopt;
  if (options.seconds < 1 || options.seconds > 3600) {
    throw UsageError(fmt::format("--seconds must be between 1 and 3600, not {}", options.seconds));
  }
  return options;
}

const Chapter& find_cache(const std::string& name, const std::vector<Chapter>& caches) {
  std::vector<std::string> names;
  for (const Chapter& cache : caches) {
    if (cache.name == name) return cache;
    names.push_back(cache.name);
  }
  throw UsageError(fmt::format("there is no cache called '{}': take one of {}", name, fmt::join(names, ", ")));
}

const Property& find_property(int64_t number) {
  int64_t count = 0;
  for (const Promises& promises : all_promises()) {
    for (const Property& property : promises.properties) {
      if (++count == number) return property;
    }
  }
  throw UsageError(fmt::format("--property is a number from 1 to {}, not {}", count, number));
}

/// Once one has not ended, the others are not tried: most would not end either, and each would take its time.
std::vector<Outcome> run(const Promises& promises, int seconds, std::string& never_ended) {
  std::vector<Outcome> outcomes;
  for (const Property& property : promises.properties) {
    if (!never_ended.empty()) {
      outcomes.push_back({.came = fmt::format("not tried, since '{}' never ended", never_ended)});
      continue;
    }
    outcomes.push_back(run_property(property, seconds));
    if (outcomes.back().never_ended) never_ended = property.name;
  }
  return outcomes;
}

/// GoogleTest's own variables, set for other tests, would choose among ours or end them.
void forget_environment() {
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE"}) unsetenv(name);
  testing::GTEST_FLAG(break_on_failure) = false;
  testing::GTEST_FLAG(fail_fast) = false;
  testing::GTEST_FLAG(throw_on_failure) = false;
  testing::GTEST_FLAG(repeat) = 1;
  testing::GTEST_FLAG(output) = "";
}

}  // namespace

int run_workshop(int argc, const char* const* argv, const std::vector<Chapter>& caches) {
  return exit_status_of("workshop", [&] {
    const auto options = parse(argc, argv, caches.front().name);
    if (!options) return 0;
    const Chapter& cache = find_cache(options->cache, caches);
    at::set_num_threads(1);  // starts no threads, so that a copy of this process is whole
    check_cache(cache);
    forget_environment();
    testing::InitGoogleTest();
    if (options->property) return run_property_here(find_property(*options->property)) || !options->strict ? 0 : 1;

    fmt::print("{}: {}\n\n", cache.name, cache.change);
    Report report(cache.name, isatty(STDOUT_FILENO) == 1);
    std::string never_ended;
    for (const Promises& promises : all_promises()) {
      fmt::print("{}", report.section(promises, run(promises, static_cast<int>(options->seconds), never_ended)));
      std::fflush(stdout);
    }
    fmt::print("{}", report.end());
    return report.all_hold() || !options->strict ? 0 : 1;
  });
}

}  // namespace kvbook

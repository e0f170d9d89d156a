#include "common/batch_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "common/console_text.h"
#include "common/identity.h"
#include "common/ids.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "common/result_json.h"
#include "common/trace_json.h"
#include "common/trace_text.h"
#include "common/tracing_cache.h"

namespace kvbook {
namespace {

constexpr size_t kBatchColumns = 100;

/// The solo run of every prompt with another chapter's cache: its tokens, and the seconds that all of them took.
struct SoloRuns {
  std::vector<Generation> answers;
  double seconds = 0;
};

SoloRuns run_alone(const Chapter& other, const NamedModel& model, const ProgramOptions& options,
                   const std::vector<std::vector<int64_t>>& prompts) {
  ProgramOptions alone = options;
  alone.chunk.reset();
  warm_up(other, model, alone, prompts.front());
  SoloRuns runs;
  Progress progress(other.name, static_cast<int64_t>(prompts.size()));
  for (const auto& prompt : prompts) {
    runs.answers.push_back(converse(other, model, alone, {prompt}).last());
    const Timings& timings = runs.answers.back().timings;
    runs.seconds += timings.token_times.back() - timings.start;
    progress.advance();
  }
  return runs;
}

int compare_rows(const NamedModel& model, const ProgramOptions& options, const BatchConversation& said,
                 const Chapter& other, bool with_rates) {
  const SoloRuns alone = run_alone(other, model, options, said.prompts);
  std::vector<int64_t> differ;
  int64_t tokens = 0;
  for (size_t row = 0; row < said.prompts.size(); ++row) {
    tokens += alone.answers[row].new_ids.size(1);
    if (!alone.answers[row].new_ids.equal(said.generation.answers[row].new_ids)) {
      differ.push_back(static_cast<int64_t>(row));
    }
  }
  const bool must = promises_same_tokens(options.dtype);
  fmt::print("same tokens as {}, each alone: {}", other.name,
             differ.empty() ? "yes" : fmt::format("no, in row{} {}", differ.size() > 1 ? "s" : "", joined(differ)));
  if (with_rates) {
    const double there = static_cast<double>(tokens) / alone.seconds;
    fmt::print(" · {:.0f} tok/s together, {:.0f} one after the other: {:.2f} times", said.generation.tokens_per_s(),
               there, said.generation.tokens_per_s() / there);
  }
  fmt::print("\n");
  if (!must) fmt::print("(not promised here: bfloat16 rounds differently in products of another size)\n");
  return differ.empty() || !must ? 0 : 1;
}

void print_rows(const NamedModel& model, const BatchConversation& said) {
  for (size_t row = 0; row < said.prompts.size(); ++row) {
    const Generation& answer = said.generation.answers[row];
    std::vector<int64_t> ids = said.prompts[row];
    const std::vector<int64_t> new_ids = to_ids(answer.new_ids);
    ids.insert(ids.end(), new_ids.begin(), new_ids.end());
    fmt::print("prompt {}: {} + {} tokens ({})\n", row, said.prompts[row].size(), new_ids.size(),
               to_string(answer.finish_reason));
    for (const std::string& line : wrapped(readable(model.tokenizer.get(), ids), kBatchColumns))
      fmt::print("{}\n", line);
    fmt::print("\n");
  }
}

void print_batch_figures(const BatchConversation& said) {
  const BatchGeneration& g = said.generation;
  const auto rate = [](const char* name, const std::optional<double>& value, const char* unit) {
    return value ? fmt::format(" · {}{:.0f}{}", name, *value, unit) : "";
  };
  fmt::print(
      "{} new tokens in {} forwards{} · {:.0f} tok/s end to end{} · cache {:.2f} MB · {:.0f} % padding · "
      "smallest gap {:.4f}{}{}\n",
      g.new_tokens(), g.forwards, rate("all begun after ", said.ttft_ms(), " ms"), said.generation.tokens_per_s(),
      rate("", said.decode_tokens_per_s(), " tok/s decoding"), said.kv_bytes / 1e6, 100 * g.padding_share(),
      said.min_margin(), g.adopted_tokens > 0 ? fmt::format(" · {} tokens adopted", g.adopted_tokens) : "",
      g.preemptions > 0 ? fmt::format(" · {} preempted for want of pages", g.preemptions) : "");
}

void check_every_room(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                      const std::vector<std::vector<int64_t>>& prompts) {
  for (size_t row = 0; row < prompts.size(); ++row) {
    try {
      check_room(chapter, model, options, {prompts[row]});
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("prompt {}: {}", row, error.what()));
    }
  }
}

}  // namespace

double BatchConversation::min_margin() const {
  double margin = generation.answers.front().min_margin;
  for (const Generation& answer : generation.answers) margin = std::min(margin, answer.min_margin);
  return margin;
}

std::optional<double> BatchConversation::ttft_ms() const {
  if (waited) return std::nullopt;
  return 1e3 * (generation.all_started() - generation.answers.front().timings.start);
}

std::optional<double> BatchConversation::prefill_tokens_per_s() const {
  if (waited) return std::nullopt;
  int64_t tokens = 0;
  for (const auto& prompt : prompts) tokens += static_cast<int64_t>(prompt.size());
  return static_cast<double>(tokens) / (*ttft_ms() / 1e3);
}

std::optional<double> BatchConversation::decode_tokens_per_s() const {
  const int64_t tokens = generation.new_tokens() - static_cast<int64_t>(prompts.size());
  if (waited || tokens == 0) return std::nullopt;
  return static_cast<double>(tokens) / (generation.all_ended() - generation.all_started());
}

BatchConversation converse_in_batch(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                                    const std::vector<std::vector<int64_t>>& prompts, const ForwardListener& on_forward,
                                    const std::function<void()>& on_token) {
  const auto all = static_cast<int64_t>(prompts.size());
  CacheOptions sizes = cache_options(options, model.checkpoint.config.shape());
  sizes.rows = std::min(options.rows.value_or(all), all);
  const auto cache = chapter.make_cache(model.checkpoint.config.shape(), sizes);
  std::optional<TracingCache> traced;
  if (on_forward) traced.emplace(*cache, on_forward);

  BatchOptions batch{.rows = sizes.rows, .pad_left = options.pad_left, .chunk = options.chunk};
  batch.stop_at = stop_id(model, options);
  if (on_token) batch.on_token = [&](size_t, int64_t) { on_token(); };
  std::vector<Request> requests;
  for (const auto& prompt : prompts) requests.push_back({prompt, options.new_tokens});
  Gpt2 gpt2(model.checkpoint);
  BatchConversation said{.prompts = prompts, .generation = {}, .waited = sizes.rows < all};
  said.generation = generate_batch(gpt2, traced ? static_cast<KVCache&>(*traced) : *cache, requests, batch);
  said.kv_bytes = cache->bytes();
  return said;
}

int run_batch(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
              const std::vector<std::vector<int64_t>>& prompts, const std::vector<Chapter>& list) {
  check_every_room(chapter, model, options, prompts);
  warm_up(chapter, model, options, prompts.front());
  const bool draws = options.trace == "", quiet = options.json == "-";
  if (!quiet) print_header(chapter, model, options);

  std::vector<TracedForward> forwards;
  const TraceText drawing(model.tokenizer.get(), isatty(STDOUT_FILENO) == 1);
  ForwardListener on_forward;
  if (draws) {
    fmt::print("{}", drawing.legend());
    on_forward = [&](const TracedForward& forward) { fmt::print("{}", drawing.row(forward)); };
  } else if (options.trace) {
    on_forward = [&](const TracedForward& forward) { forwards.push_back(forward); };
  }
  const BatchConversation said = [&] {
    const int64_t an_answer = std::min<int64_t>(options.new_tokens, model.checkpoint.config.context);
    Progress progress(chapter.name, draws ? 0 : an_answer * static_cast<int64_t>(prompts.size()));
    return converse_in_batch(chapter, model, options, prompts, on_forward, [&] { progress.advance(); });
  }();
  if (draws) fmt::print("\n");
  if (!quiet) {
    print_rows(model, said);
    if (!draws) print_batch_figures(said);
  }
  if (options.trace && !draws) {
    write_output(*options.trace, trace_json(chapter, options.model, model.tokenizer.get(), forwards));
  }
  if (options.json) {
    write_output(*options.json, result_json(chapter, options, said));
    return 0;
  }
  for (const Chapter& other : list) {
    if (other.name == chapter.same_tokens_as) return compare_rows(model, options, said, other, !draws);
  }
  return 0;
}

}  // namespace kvbook

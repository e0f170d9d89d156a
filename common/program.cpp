#include "common/program.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/batch_program.h"
#include "common/console_text.h"
#include "common/identity.h"
#include "common/ids.h"
#include "common/output_file.h"
#include "common/progress.h"
#include "common/result_json.h"
#include "common/trace_json.h"
#include "common/trace_text.h"

namespace kvbook {
namespace {

GenerateOptions generate_options(const NamedModel& model, const ProgramOptions& options, const Listener& listener) {
  GenerateOptions generate;
  generate.new_tokens = options.new_tokens;
  generate.chunk = options.chunk;
  generate.stop_at = stop_id(model, options);
  if (listener.on_token) {
    generate.on_token = [&listener](const torch::Tensor& next) { listener.on_token(next[0].item<int64_t>()); };
  }
  return generate;
}

std::vector<std::vector<int64_t>> encode_inputs(const NamedModel& model, const ProgramOptions& options) {
  std::vector<std::vector<int64_t>> inputs;
  for (const Input& prompt : options.prompts) inputs.push_back(encode_input(model, prompt, "--prompt"));
  if (inputs.empty()) inputs.push_back(default_prompt(model));
  for (const Input& turn : options.turns) inputs.push_back(encode_input(model, turn, "--turn"));
  return inputs;
}

/// The same run for a chapter to compare with: its window if it has one, no chunks, room for all of the context.
ProgramOptions plain_options(const ProgramOptions& options, const Chapter& chapter) {
  ProgramOptions plain = options;
  plain.chunk.reset();
  if (!chapter.takes_window) plain.window.reset();
  plain.capacity.reset();
  plain.pool_pages.reset();
  return plain;
}

std::string rate(const std::optional<double>& tokens_per_s) {
  return tokens_per_s ? fmt::format("{:.0f} tok/s", *tokens_per_s) : "-";
}

void print_figures(const Conversation& said) {
  const Generation& last = said.last();
  const bool several = said.answers.size() > 1;
  fmt::print(
      "\n{}{} new tokens ({}) · first after {:.1f} ms · {:.0f} tok/s end to end · {} decoding · cache {:.2f} MB · "
      "smallest gap {:.4f}{}\n",
      several ? "last answer: " : "", last.new_ids.size(1), to_string(last.finish_reason), last.timings.ttft_ms(),
      last.timings.tokens_per_s(), rate(last.timings.decode_tokens_per_s()), said.kv_bytes / 1e6, said.min_margin(),
      several ? " in all answers" : "");
}

/// Drawing takes time, so no rates are shown beside it.
bool draws(const ProgramOptions& options) { return options.trace == ""; }

/// Without a cache a forward leaves no trace but what was fed: everything said so far, for each new token.
void report_uncached(const Conversation& said, const ForwardListener& on_forward) {
  std::vector<int64_t> sequence;
  for (size_t turn = 0; turn < said.inputs.size(); ++turn) {
    sequence.insert(sequence.end(), said.inputs[turn].begin(), said.inputs[turn].end());
    for (const int64_t id : to_ids(said.answers[turn].new_ids)) {
      on_forward(uncached_forward(sequence));
      sequence.push_back(id);
    }
  }
}

/// True where the contract promises the same tokens: full precision, and a window that hides nothing or hides it from
/// both.
bool must_agree(const Chapter& chapter, const ProgramOptions& options, const Conversation& said, const Chapter& other) {
  int64_t positions = -1;  // the last token is never fed
  for (const auto& input : said.inputs) positions += static_cast<int64_t>(input.size());
  for (const auto& answer : said.answers) positions += answer.new_ids.size(1);
  const auto hides_some = [&](int64_t layer_window) { return layer_window != 0 && layer_window < positions; };
  const bool same_sight = (other.takes_window || options.window.value_or(positions) >= positions) &&
                          std::none_of(options.layer_windows.begin(), options.layer_windows.end(), hides_some);
  return promises_same_tokens(options.dtype) && same_sight && chapter.rounds.empty();
}

/// Where two conversations part, in words.
std::string first_difference(const Conversation& a, const Conversation& b) {
  for (size_t answer = 0; answer < a.answers.size(); ++answer) {
    const std::vector<int64_t> one = to_ids(a.answers[answer].new_ids), other = to_ids(b.answers[answer].new_ids);
    if (one == other) continue;
    const auto end = one.begin() + static_cast<int64_t>(std::min(one.size(), other.size()));
    const auto token = std::mismatch(one.begin(), end, other.begin()).first - one.begin() + 1;
    return fmt::format("from token {}{} on", token,
                       a.answers.size() > 1 ? fmt::format(" of answer {}", answer + 1) : "");
  }
  return "in nothing";
}

/// Prints the comparison and both rates: this chapter's from a second run, since the first one's steps waited for the
/// terminal too. Returns the exit status.
int compare(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options, const Conversation& said,
            const Chapter& other) {
  warm_up(other, model, plain_options(options, other), said.inputs.front());
  const Conversation reference = converse_afresh(other, model, options, said);
  const Conversation again = draws(options) ? said : converse_quietly(chapter, model, options, said.inputs);
  const bool repeatable = same_tokens(said, again), same = same_tokens(said, reference) && repeatable;
  const bool must = must_agree(chapter, options, said, other);
  const double here = again.last().timings.tokens_per_s(), there = reference.last().timings.tokens_per_s();
  fmt::print("same tokens as {}: {}", other.name, same ? "yes" : "no");
  if (!same && !must) {
    fmt::print(", {}", repeatable ? first_difference(said, reference) : "and not the same when told again");
  }
  if (!draws(options)) fmt::print(" · {:.0f} tok/s here, {:.0f} there: {:.2f} times", here, there, here / there);
  fmt::print("\n");
  if (!must) {
    fmt::print("(not promised here: {})\n",
               !promises_same_tokens(options.dtype) ? "bfloat16 rounds differently in products of another size"
               : !chapter.rounds.empty()            ? chapter.rounds
                                                    : "the window hides tokens that the other chapter sees");
  }
  return same || (!must && repeatable) ? 0 : 1;
}

/// Bytes of one layer of the whole context.
int64_t layer_bytes(const ProgramOptions& options, const ModelShape& shape) {
  return key_value_bytes(shape, 1, shape.context, static_cast<int64_t>(c10::elementSize(options.dtype))) / shape.layers;
}

/// How many of them fit the memory that was asked for.
std::optional<int64_t> resident_layers(const ProgramOptions& options, const ModelShape& shape) {
  if (!options.resident_mib) return std::nullopt;
  return std::min((*options.resident_mib << 20) / layer_bytes(options, shape), shape.layers);
}

}  // namespace

void print_header(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options) {
  const Gpt2Config& config = model.checkpoint.config;
  fmt::print("{}: {}\nmodel {}: {} layers, {} heads, E {}, context {}, {} · {} threads\n\n", chapter.name,
             chapter.change, model.name, config.layers, config.heads, config.embedding, config.context,
             dtype_name(options.dtype), options.threads);
}

std::optional<int64_t> stop_id(const NamedModel& model, const ProgramOptions& options) {
  if (!options.stop_at_eos) return std::nullopt;
  const auto id = model.checkpoint.config.eos_id;
  if (!id) throw UsageError("--stop-at-eos: the model's config.json names no eos_token_id");
  return id;
}

double Conversation::min_margin() const {
  double margin = answers.front().min_margin;
  for (const Generation& answer : answers) margin = std::min(margin, answer.min_margin);
  return margin;
}

CacheOptions cache_options(const ProgramOptions& options, const ModelShape& shape) {
  CacheOptions sizes = default_cache_options(shape);
  sizes.window = std::min(options.window.value_or(sizes.window), shape.context);
  sizes.capacity = options.capacity.value_or(sizes.capacity);
  sizes.layer_windows = options.layer_windows;
  sizes.resident_layers = resident_layers(options, shape).value_or(sizes.resident_layers);
  sizes.spill = options.spill;
  sizes.scales = options.scales;
  sizes.group = options.group.value_or(sizes.group);
  sizes.ranges = options.ranges;
  sizes.page = std::min(options.page.value_or(sizes.page), shape.context);  // no row has more tokens
  sizes.pool_pages = options.pool_pages.value_or(sizes.pool_pages);
  return sizes;
}

void check_room(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                const std::vector<std::vector<int64_t>>& inputs) {
  const size_t layers = static_cast<size_t>(model.checkpoint.config.layers), windows = options.layer_windows.size();
  if (windows > 0 && windows != layers) {
    throw UsageError(fmt::format("--layer-windows has {} windows and '{}' has {} layers: give each layer one, or 0",
                                 windows, model.name, layers));
  }
  if (resident_layers(options, model.checkpoint.config.shape()) == 0) {
    const int64_t layer = layer_bytes(options, model.checkpoint.config.shape());
    throw UsageError(fmt::format("--resident-mib {} is too little for one layer of {} bytes: give at least {}",
                                 *options.resident_mib, layer, (layer + (1 << 20) - 1) >> 20));
  }
  // An answer has new_tokens, or at least 1 where an end-of-text token may cut it short. Bounded, so that sums fit.
  const int64_t new_tokens = std::min<int64_t>(options.new_tokens, int64_t{1} << 40);
  const int64_t sure_of_answer = options.stop_at_eos ? 1 : new_tokens;
  const int64_t context = model.checkpoint.config.context;
  int64_t tokens = 0;
  for (size_t turn = 0; turn < inputs.size(); ++turn) {
    tokens += static_cast<int64_t>(inputs[turn].size());
    if (tokens > context) {
      throw UsageError(fmt::format("{} {} {} tokens and the context of '{}' is {}: shorten it",
                                   turn == 0 ? "the prompt" : fmt::format("turn {} with all before it", turn),
                                   turn == 0 ? "has" : "comes to", tokens, model.name, context));
    }
    if (turn + 1 < inputs.size()) tokens += sure_of_answer;
  }
  const int64_t prompt = static_cast<int64_t>(inputs.front().size());
  const int64_t chunk = options.chunk.value_or(prompt);
  if (!chapter.no_chunk_on_history.empty() && chunk > 1 && prompt - 1 > chunk) {  // a second chunk of 2 or more
    throw UsageError(fmt::format("--chunk {} of {} tokens: {}", chunk, prompt, chapter.no_chunk_on_history));
  }
  const int64_t most =
      tokens + new_tokens - 1 + static_cast<int64_t>(inputs.size() - 1) * (new_tokens - sure_of_answer);
  if (options.capacity && most > *options.capacity) {
    throw UsageError(
        fmt::format("--capacity {} is too small for prompt + new tokens - 1 = {}: raise it, or ask for fewer",
                    *options.capacity, most));
  }
  const int64_t page = cache_options(options, model.checkpoint.config.shape()).page,
                most_held = std::min(most, context);
  if (options.pool_pages && most_held > *options.pool_pages * page) {
    throw UsageError(fmt::format(
        "--pool-pages {} of {} tokens are too few for prompt + new tokens - 1 = {}: raise it, or ask for fewer",
        *options.pool_pages, page, most));
  }
}

Conversation tell(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                  const std::vector<std::vector<int64_t>>& inputs, const ForwardListener& on_forward) {
  ConsoleText console(model.tokenizer.get());
  Listener listener;
  listener.on_input = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) console.add(id);
  };
  listener.on_token = [&](int64_t id) { console.add(id); };
  listener.on_forward = on_forward;
  try {
    Conversation said = converse(chapter, model, options, inputs, listener);
    console.finish();
    return said;
  } catch (...) {
    console.finish();  // the message gets a line of its own
    throw;
  }
}

Conversation draw(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                  const std::vector<std::vector<int64_t>>& inputs) {
  const TraceText text(model.tokenizer.get(), isatty(STDOUT_FILENO) == 1);
  bool first = true;
  const Conversation said = converse(chapter, model, options, inputs, {.on_forward = [&](const TracedForward& forward) {
                                       if (first) fmt::print("{}", text.legend(!forward.layers.empty()));
                                       first = false;
                                       fmt::print("{}", text.row(forward));
                                       std::fflush(stdout);
                                     }});
  fmt::print("\n");
  ConsoleText console(model.tokenizer.get());
  for (size_t turn = 0; turn < said.inputs.size(); ++turn) {
    for (const int64_t id : said.inputs[turn]) console.add(id);
    for (const int64_t id : to_ids(said.answers[turn].new_ids)) console.add(id);
  }
  console.finish();
  return said;
}

Conversation converse(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                      const std::vector<std::vector<int64_t>>& inputs, const Listener& listener) {
  const auto session = open_session(chapter, model.checkpoint, cache_options(options, model.checkpoint.config.shape()),
                                    listener.on_forward);
  Conversation said{inputs, {}, 0};
  for (const auto& input : inputs) {
    if (listener.on_input) listener.on_input(input);
    said.answers.push_back(session->generate(to_row(input), generate_options(model, options, listener)));
  }
  if (listener.on_forward && !chapter.make_cache) report_uncached(said, listener.on_forward);
  said.kv_bytes = session->bytes();
  return said;
}

Conversation converse_quietly(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                              const std::vector<std::vector<int64_t>>& inputs, const ForwardListener& on_forward) {
  const int64_t an_answer = std::min<int64_t>(options.new_tokens, model.checkpoint.config.context);
  Progress progress(chapter.name, an_answer * static_cast<int64_t>(inputs.size()));
  return converse(chapter, model, options, inputs,
                  {.on_token = [&](int64_t) { progress.advance(); }, .on_forward = on_forward});
}

void warm_up(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
             const std::vector<int64_t>& prompt) {
  ProgramOptions brief = options;
  brief.new_tokens = std::min<int64_t>(2, options.new_tokens);
  const Progress progress("warming up", 0);
  converse(chapter, model, brief, {prompt});
}

Conversation converse_afresh(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                             const Conversation& said) {
  const ProgramOptions plain = plain_options(options, chapter);
  int64_t answered = 0;
  for (const Generation& answer : said.answers) answered += answer.new_ids.size(1);
  Progress progress(chapter.name, answered);
  Listener listener;
  listener.on_token = [&](int64_t) { progress.advance(); };
  Conversation fresh{said.inputs, {}, 0};
  std::vector<int64_t> joined;
  for (size_t turn = 0; turn < said.inputs.size(); ++turn) {
    joined.insert(joined.end(), said.inputs[turn].begin(), said.inputs[turn].end());
    Conversation run = converse(chapter, model, plain, {joined}, listener);
    fresh.answers.push_back(run.last());
    fresh.kv_bytes = run.kv_bytes;
    const std::vector<int64_t> answer = to_ids(said.answers[turn].new_ids);
    joined.insert(joined.end(), answer.begin(), answer.end());
  }
  return fresh;
}

bool same_tokens(const Conversation& a, const Conversation& b) {
  if (a.answers.size() != b.answers.size()) return false;
  for (size_t turn = 0; turn < a.answers.size(); ++turn) {
    if (!a.answers[turn].new_ids.equal(b.answers[turn].new_ids)) return false;
  }
  return true;
}

int run_program(int argc, const char* const* argv, const Chapter& chapter, const std::vector<Chapter>& list,
                const AfterTheStory& after) {
  return exit_status_of(chapter.name, [&] {
    const auto parsed = parse_command_line(argc, argv, chapter);
    if (!parsed) return 0;
    ProgramOptions options = *parsed;
    at::set_num_threads(options.threads);
    if (options.json) check_output(*options.json);
    const bool writes_trace = options.trace && !draws(options);
    if (writes_trace) check_output(*options.trace);

    const NamedModel model = [&] {
      const Progress progress("loading " + options.model, 0);
      return open_model(options.model, options.dtype);
    }();
    const auto inputs = encode_inputs(model, options);
    if (options.prompts.size() > 1) return run_batch(chapter, model, options, inputs, list);
    check_room(chapter, model, options, inputs);
    if (options.scales == Scales::kChannel) options.ranges = chapter.measure_ranges(model);
    warm_up(chapter, model, options, inputs.front());

    std::vector<TracedForward> forwards;
    ForwardListener on_forward;
    if (writes_trace) on_forward = [&](const TracedForward& forward) { forwards.push_back(forward); };
    const auto write_trace = [&] {
      if (!writes_trace) return;
      write_output(*options.trace, trace_json(chapter, options.model, model.tokenizer.get(), forwards));
    };

    if (options.json == "-") {
      const Conversation said = converse_quietly(chapter, model, options, inputs, on_forward);
      write_trace();
      write_output("-", result_json(chapter, options, said));
      return 0;
    }
    print_header(chapter, model, options);
    const Conversation said =
        draws(options) ? draw(chapter, model, options, inputs) : tell(chapter, model, options, inputs, on_forward);
    if (!draws(options)) print_figures(said);
    write_trace();
    if (options.json) {
      write_output(*options.json, result_json(chapter, options, said));
      return 0;
    }
    int status = 0;
    for (const Chapter& other : list) {
      if (other.name == chapter.same_tokens_as) status = compare(chapter, model, options, said, other);
    }
    if (after && !draws(options)) after(model, options, said);
    return status;
  });
}

}  // namespace kvbook

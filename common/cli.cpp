#include "common/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace kvbook {
namespace {

constexpr int kMostThreads = 1024;
constexpr int64_t kMostPages = int64_t{1} << 22;  // and tokens of a page: products fit, and lists of pages the memory
constexpr int64_t kMostMib = int64_t{1} << 40;
constexpr char kNotEnoughMemory[] =
    "not enough memory: ask for a smaller model, prompt, capacity or pool, or fewer layers in memory";

/// Fit for one line of a terminal, whatever a reader or a file put into it.
std::string one_line(std::string text) {
  constexpr size_t kLongest = 600;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  const size_t last = text.find_last_not_of(" \n\r");
  text.resize(last == std::string::npos ? 0 : last + 1);
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return text;
}

/// CLI11 takes the next word for the value that is missing in "--name=".
void refuse_missing_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.size() > 3 && word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1) {
      throw UsageError(fmt::format("{} has no value: give one, or leave the flag out", word));
    }
  }
}

/// CLI11 reads lists and escapes into values that begin with brackets, each version its own: "[a,b]" would become two.
/// A mark in front of the flags that take free text keeps it from looking. A word that begins with - stays as it is,
/// since it is the next flag and the text is missing.
constexpr char kTextMark = '\x01';

std::vector<std::string> with_marked_texts(int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    for (const std::string flag : {"--prompt", "--turn"}) {
      const bool follows = argv[i - 1] == flag && argv[i][0] != '-';
      if (follows) words[i].insert(0, 1, kTextMark);
      if (words[i].rfind(flag + "=", 0) == 0) words[i].insert(flag.size() + 1, 1, kTextMark);
    }
  }
  return words;
}

std::string without_mark(const std::string& text) { return text.rfind(kTextMark, 0) == 0 ? text.substr(1) : text; }

void check_at_least_one(const char* flag, std::optional<int64_t> value) {
  if (value && *value < 1) throw UsageError(fmt::format("{} must be at least 1, not {}", flag, *value));
}

void check_pages(const char* flag, std::optional<int64_t> value) {
  if (value && (*value < 1 || *value > kMostPages)) {
    throw UsageError(fmt::format("{} must be between 1 and {}, not {}", flag, kMostPages, *value));
  }
}

void check_folder(const char* flag, const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored) && access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw UsageError(
      fmt::format("{}: '{}' is not a folder in which a file can be made: make it, or give another", flag, folder));
}

/// The options of one command line, before they are checked.
struct RawOptions {
  std::string dtype = "float32", pad = "right", scales = "token", json, trace, layer_windows;
  std::vector<std::string> prompts, prompt_ids, turns, turn_ids;
  std::optional<int64_t> threads;
};

/// The prompts in the order given.
std::vector<Input> prompts_of(const RawOptions& raw, const Chapter& chapter) {
  if (!raw.prompts.empty() && !raw.prompt_ids.empty()) {
    throw UsageError("--prompt and --prompt-ids exclude each other: give one of them");
  }
  std::vector<Input> prompts;
  for (const std::string& text : raw.prompts) prompts.emplace_back(without_mark(text));
  for (const std::string& ids : raw.prompt_ids) prompts.emplace_back(parse_ids(ids, "--prompt-ids"));
  if (prompts.size() > 1 && !chapter.takes_rows) {
    throw UsageError(
        fmt::format("{} prompts are given and {} takes one: leave the others out, or use 07_ragged_batch or 08_paged",
                    prompts.size(), chapter.name));
  }
  return prompts;
}

/// --turn and --turn-ids as they came, one after the other.
std::vector<Input> turns_in_order(const CLI::App& app, const RawOptions& raw) {
  std::vector<Input> turns;
  size_t texts = 0, ids = 0;
  for (const CLI::Option* option : app.parse_order()) {
    if (option->check_lname("turn")) turns.emplace_back(without_mark(raw.turns.at(texts++)));
    if (option->check_lname("turn-ids")) turns.emplace_back(parse_ids(raw.turn_ids.at(ids++), "--turn-ids"));
  }
  return turns;
}

/// "1,2,3". @throws UsageError, in which `what` says what the numbers are, unless it is whole numbers and single
/// commas.
std::vector<int64_t> parse_numbers(const std::string& text, const std::string& flag, const std::string& what) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    const bool whole = error == std::errc() && (next == end || *next == ',');
    if (!whole) throw UsageError(fmt::format("{} takes {}, not '{}'", flag, what, text));
    numbers.push_back(number);
    if (next == end) return numbers;
    at = next + 1;
  }
}

std::vector<int64_t> parse_layer_windows(const std::string& text) {
  const std::string flag = "--layer-windows";
  std::vector<int64_t> windows = parse_numbers(text, flag, "a window for each layer, such as 64,64,0,0");
  for (const int64_t window : windows) {
    if (window < 0)
      throw UsageError(fmt::format("{}: a window is at least 1, or 0 for a full layer, not {}", flag, window));
  }
  return windows;
}

}  // namespace

bool parse_or_help(CLI::App& app, int argc, const char* const* argv) {
  refuse_missing_values(argc, argv);
  const std::vector<std::string> words = with_marked_texts(argc, argv);
  std::vector<const char*> marked;
  for (const std::string& word : words) marked.push_back(word.c_str());
  try {
    app.parse(argc, marked.data());
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {  // what() may end in a newline
    throw UsageError(one_line(error.what()) + " (--help lists the flags)");
  }
  return true;
}

std::vector<int64_t> parse_ids(const std::string& text, const std::string& flag) {
  return parse_numbers(text, flag, "ids separated by commas, such as 1,2,3");
}

std::string whole_number_fault(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("'{}' is not a whole number of at most 19 digits", text);
}

torch::ScalarType parse_dtype(const std::string& name) {
  if (name == "float32") return torch::kFloat32;
  if (name == "float64") return torch::kFloat64;
  if (name == "bfloat16") return torch::kBFloat16;
  throw UsageError(fmt::format("--dtype is float32, float64 or bfloat16, not '{}'", name));
}

Scales parse_scales(const std::string& name) {
  if (name == "token") return Scales::kToken;
  if (name == "channel") return Scales::kChannel;
  if (name == "group") return Scales::kGroup;
  throw UsageError(fmt::format("--scales is token, channel or group, not '{}'", name));
}

std::string dtype_name(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat32:
      return "float32";
    case torch::kFloat64:
      return "float64";
    case torch::kBFloat16:
      return "bfloat16";
    default:
      return c10::toString(dtype);
  }
}

int usable_cores() {
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#ifdef __linux__
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof(affinity), &affinity) == 0) cores = CPU_COUNT(&affinity);
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");  // "200000 100000": two cores' time; "max 100000": no quota
  double quota = 0, period = 0;
  if (quota_file >> quota >> period && period > 0) cores = std::clamp(static_cast<int>(quota / period), 1, cores);
#endif
  return cores;
}

void check_threads(int64_t threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw UsageError(fmt::format("--threads must be between 1 and {}, not {}", kMostThreads, threads));
  }
}

std::optional<ProgramOptions> parse_command_line(int argc, const char* const* argv, const Chapter& chapter) {
  ProgramOptions options;
  RawOptions raw;
  CLI::App app(fmt::format("{}: {}", chapter.name, chapter.change), chapter.name);

  // A flag without meaning here is known, so that it can be refused by name, but not shown by --help.
  std::vector<std::pair<const CLI::Option*, bool>> meaning;
  const auto where = [&](CLI::Option* option, bool has_meaning) {
    meaning.emplace_back(option, has_meaning);
    if (!has_meaning) option->group("");
    return option;
  };

  app.add_option("--model", options.model, "tales, gpt2-random, gpt2, or a folder in the Hugging Face GPT-2 layout")
      ->capture_default_str();
  const std::string repeatable = chapter.takes_rows ? "; repeatable" : "";
  app.add_option("--prompt", raw.prompts, "text to go on from (default: a tale's opening)" + repeatable)
      ->allow_extra_args(false);
  app.add_option("--prompt-ids", raw.prompt_ids, "the prompt as ids: 1,2,3" + repeatable)->allow_extra_args(false);
  app.add_option("--new-tokens", options.new_tokens, "how many to generate")
      ->capture_default_str()
      ->check(whole_number_fault);
  where(app.add_option("--chunk", options.chunk, "prefill at most this many tokens a forward (default: the prompt)"),
        chapter.takes_chunk)
      ->check(whole_number_fault);
  where(app.add_option("--window", options.window, "tokens that a query sees, itself included (default: the context)"),
        chapter.takes_window)
      ->check(whole_number_fault);
  where(app.add_option("--capacity", options.capacity, "tokens that the cache has room for (default: the context)"),
        chapter.takes_capacity)
      ->check(whole_number_fault);
  CLI::Option* layer_windows =
      where(app.add_option("--layer-windows", raw.layer_windows,
                           "a window for each layer, 0 for a full one: 64,64,0,0 (default: all are full)"),
            chapter.takes_layer_windows);
  where(app.add_option("--rows", options.rows, "prompts at once, the others wait (default: all of them)"),
        chapter.takes_rows)
      ->check(whole_number_fault);
  where(app.add_option("--page", options.page, "tokens that a page has room for (default: 16)"), chapter.takes_pages)
      ->check(whole_number_fault);
  where(app.add_option("--pool-pages", options.pool_pages, "pages of all rows (default: rows x context / page)"),
        chapter.takes_pages)
      ->check(whole_number_fault);
  where(app.add_option("--scales", raw.scales, "token, channel or group: which numbers share a scale"),
        chapter.takes_scales)
      ->capture_default_str();
  where(app.add_option("--group", options.group, "tokens of a group, with --scales group (default: 32)"),
        chapter.takes_scales)
      ->check(whole_number_fault);
  where(app.add_option("--resident-mib", options.resident_mib,
                       "MiB of memory for keys and values, the others lie in a file (default: two layers)"),
        chapter.takes_spill)
      ->check(whole_number_fault);
  CLI::Option* spill =
      where(app.add_option("--spill", options.spill, "folder of that file (default: the system's for temporary files)"),
            chapter.takes_spill);
  where(app.add_option("--pad", raw.pad, "left or right: where the padding of shorter prompts stands"),
        chapter.takes_rows)
      ->capture_default_str();
  app.add_option("--dtype", raw.dtype, "float32, float64 or bfloat16")->capture_default_str();
  app.add_option("--threads", raw.threads, "threads of the matrix products (default: usable cores)")
      ->check(whole_number_fault);
  where(app.add_option("--turn", raw.turns, "more text after an answer, on the same cache; repeatable"),
        chapter.takes_turns)
      ->allow_extra_args(false);
  where(app.add_option("--turn-ids", raw.turn_ids, "the same as ids; repeatable"), chapter.takes_turns)
      ->allow_extra_args(false);
  app.add_flag("--stop-at-eos", options.stop_at_eos, "end at the end-of-text token");
  CLI::Option* trace =
      app.add_flag("--trace", raw.trace, "draw the cache as it changes; --trace=FILE: write the events as JSON")
          ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  CLI::Option* json = app.add_option("--json", raw.json,
                                     "write the result as JSON and leave the comparison out; -: to standard output");
  CLI::Option* logits = app.add_flag("--logits", options.logits, "add the logits that chose the last id to the JSON");

  if (!parse_or_help(app, argc, argv)) return std::nullopt;

  for (const auto& [option, has_meaning] : meaning) {
    if (option->count() > 0 && !has_meaning) {
      throw UsageError(
          fmt::format("--{} has no meaning for {}: leave it out", option->get_lnames().front(), chapter.name));
    }
  }
  options.prompts = prompts_of(raw, chapter);
  if (options.prompts.size() > 1 && !(raw.turns.empty() && raw.turn_ids.empty())) {
    throw UsageError("--turn goes on from one prompt, and there are several: give one of them");
  }
  if (logits->count() > 0 && json->count() == 0) throw UsageError("--logits adds to the JSON: give --json FILE too");
  if (json->count() > 0) options.json = raw.json;
  if (options.json && options.json->empty()) throw UsageError("--json takes a file's name, or - for standard output");
  if (trace->count() > 0) options.trace = trace->results().front() == "true" ? "" : trace->results().front();
  if (options.trace == "-") {
    throw UsageError("--trace=FILE takes a file's name; --trace alone draws on standard output");
  }
  if (options.trace == "" && options.json == "-") {
    throw UsageError("--trace draws on standard output, which --json - needs for itself: give one of them a file");
  }
  options.turns = turns_in_order(app, raw);
  options.dtype = parse_dtype(raw.dtype);
  if (raw.pad != "left" && raw.pad != "right")
    throw UsageError(fmt::format("--pad is left or right, not '{}'", raw.pad));
  options.pad_left = raw.pad == "left";
  const int64_t threads = raw.threads.value_or(usable_cores());
  check_threads(threads);
  options.threads = static_cast<int>(threads);
  check_at_least_one("--new-tokens", options.new_tokens);
  check_at_least_one("--chunk", options.chunk);
  check_at_least_one("--window", options.window);
  check_at_least_one("--capacity", options.capacity);
  check_at_least_one("--rows", options.rows);
  if (layer_windows->count() > 0) options.layer_windows = parse_layer_windows(raw.layer_windows);
  options.scales = parse_scales(raw.scales);
  check_at_least_one("--group", options.group);
  if (options.group && options.scales != Scales::kGroup) {
    throw UsageError(fmt::format("--group {} goes with --scales group: give it, or leave --group out", *options.group));
  }
  if (options.resident_mib && (*options.resident_mib < 1 || *options.resident_mib > kMostMib)) {
    throw UsageError(fmt::format("--resident-mib must be between 1 and {}, not {}", kMostMib, *options.resident_mib));
  }
  if (spill->count() > 0) check_folder("--spill", options.spill);
  check_pages("--page", options.page);
  check_pages("--pool-pages", options.pool_pages);
  return options;
}

namespace {

/// LibTorch's allocator speaks of its source lines; a reader needs to know what to change.
std::string fault_of(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  for (const char* piece : {"can't allocate memory", "not enough memory", "Storage size calculation overflowed"}) {
    if (text.find(piece) != std::string::npos) return kNotEnoughMemory;
  }
  return text;
}

}  // namespace

int exit_status_of(const std::string& program_name, const std::function<int()>& program) {
  std::string fault;
  try {
    const int status = program();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    fault = fmt::format("cannot write standard output: {}", std::strerror(errno));
  } catch (const c10::Error& error) {
    fault = fault_of(error);
  } catch (const std::bad_alloc&) {
    fault = kNotEnoughMemory;
  } catch (const std::length_error&) {  // a list that no memory could hold
    fault = kNotEnoughMemory;
  } catch (const std::exception& error) {
    fault = error.what();
  } catch (...) {  // a reader's own cache may throw anything
    fault = "something was thrown that is no std::exception";
  }
  std::fflush(stdout);
  const std::string line = fmt::format("{}: {}\n", program_name, one_line(fault));
  std::fputs(line.c_str(), stderr);  // not fmt::print: it throws where standard error cannot be written
  return 2;
}

}  // namespace kvbook

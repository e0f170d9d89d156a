// The command line of a chapter's program: flags, defaults, and what is refused before anything is loaded.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/chapter.h"
#include "common/usage_error.h"

namespace CLI {
class App;
}

namespace kvbook {

/// Text to be encoded, or ids as they are.
using Input = std::variant<std::string, std::vector<int64_t>>;

struct ProgramOptions {
  std::string model = "tales";
  std::vector<Input> prompts;  // none: the model's default (see model_source.h); several where the chapter takes rows
  std::vector<Input> turns;    // more input after each answer, in the order given
  int64_t new_tokens = 200;
  std::optional<int64_t> chunk, window, capacity;
  std::vector<int64_t> layer_windows;  // a layer each, 0: full; none: all are full
  std::optional<int64_t> rows;         // prompts at once, the others wait; undefined: all of them
  std::optional<int64_t> page, pool_pages;
  Scales scales = Scales::kToken;
  std::optional<int64_t> group;
  KeyValueRanges ranges;  // for scales a channel: measured once the model is there
  std::optional<int64_t> resident_mib;
  std::string spill;
  bool pad_left = false;
  torch::ScalarType dtype = torch::kFloat32;
  int threads = 1;
  bool stop_at_eos = false;
  std::optional<std::string> json;  // a file, or "-" for standard output
  bool logits = false;
  std::optional<std::string> trace;  // a file for the events, or empty: draw them
};

/// Parses the flags of `chapter`'s program. Returns nothing when help was asked for and printed.
/// @throws UsageError naming the flag: unknown, malformed, out of range, without meaning for this chapter, or two that
/// exclude each other.
std::optional<ProgramOptions> parse_command_line(int argc, const char* const* argv, const Chapter& chapter);

/// Parses with CLI11 and prints help if asked for, which returns false. @throws UsageError, one line.
bool parse_or_help(CLI::App& app, int argc, const char* const* argv);

/// "1,2,3" as ids. @throws UsageError unless it is whole numbers separated by single commas.
std::vector<int64_t> parse_ids(const std::string& text, const std::string& flag);

/// Empty for a whole number that fits int64, else what is wrong with it: a check for CLI11, which takes 1e30 for the
/// largest number there is.
std::string whole_number_fault(const std::string& text);

/// @throws UsageError for another word than token, channel and group.
Scales parse_scales(const std::string& name);

/// "float32", "float64" or "bfloat16". @throws UsageError for another name.
torch::ScalarType parse_dtype(const std::string& name);
std::string dtype_name(torch::ScalarType dtype);

/// Cores this process may run on: by affinity, and by the quota of its container.
int usable_cores();

/// @throws UsageError unless 1 <= threads <= 1024; more than that many cannot be created everywhere.
void check_threads(int64_t threads);

/// Runs `program` and turns what it throws, or a standard output that cannot be written, into the contract's exit
/// status: one line on standard error and 2.
int exit_status_of(const std::string& program_name, const std::function<int()>& program);

}  // namespace kvbook

// What every chapter's program does: tell a story with its own cache, then compare with the chapter before.
#pragma once

#include <string>

#include "common/chapter.h"
#include "common/cli.h"
#include "common/model_source.h"

namespace kvbook {

/// Everything a run said: a generation for each input.
struct Conversation {
  std::vector<std::vector<int64_t>> inputs;  // the prompt, then the turns
  std::vector<Generation> answers;
  int64_t kv_bytes = 0;  // at the end

  const Generation& last() const { return answers.back(); }
  double min_margin() const;  ///< over all answers
};

/// The cache's sizes that the flags ask for.
CacheOptions cache_options(const ProgramOptions& options, const ModelShape& shape);

/// @throws UsageError for what can be known beforehand: an input that passes the context, a capacity too small, chunks
/// that this chapter's cache does not take.
void check_room(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                const std::vector<std::vector<int64_t>>& inputs);

/// Prints the program's first lines: chapter, model and machine.
void print_header(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options);

/// The id that ends a generation, if --stop-at-eos asks for it. @throws UsageError if the model names none.
std::optional<int64_t> stop_id(const NamedModel& model, const ProgramOptions& options);

/// Follows a conversation while it goes on. Either may be empty.
struct Listener {
  std::function<void(const std::vector<int64_t>& ids)> on_input = {};  // before an input is fed
  std::function<void(int64_t id)> on_token = {};                       // as soon as a token is known
  ForwardListener on_forward = {};                                     // after a forward; without a cache, at the end
};

/// Prints inputs and answers to standard output as they come.
Conversation tell(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                  const std::vector<std::vector<int64_t>>& inputs, const ForwardListener& on_forward = {});

/// Draws the cache forward by forward on standard output instead, and prints what was said below.
Conversation draw(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                  const std::vector<std::vector<int64_t>>& inputs);

/// Runs one chapter on the inputs, turn by turn on one session.
Conversation converse(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                      const std::vector<std::vector<int64_t>>& inputs, const Listener& listener = {});

/// As converse; a terminal sees how far it is.
Conversation converse_quietly(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                              const std::vector<std::vector<int64_t>>& inputs, const ForwardListener& on_forward = {});

/// The first forwards of a process and of a model start threads and fill tables, which is not what figures are about: a
/// few tokens after the prompt, thrown away.
void warm_up(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
             const std::vector<int64_t>& prompt);

/// The same answers from fresh sessions of another chapter: every turn is a run on all that was said before it.
Conversation converse_afresh(const Chapter& chapter, const NamedModel& model, const ProgramOptions& options,
                             const Conversation& said);

/// True if both answered the same, turn by turn.
bool same_tokens(const Conversation& a, const Conversation& b);

/// What a chapter shows beside its story and the comparison.
using AfterTheStory = std::function<void(const NamedModel&, const ProgramOptions&, const Conversation&)>;

/// The whole of a chapter's main(): exit status 0, 1 (tokens that must agree differ) or 2 (bad input).
/// `list` holds the chapter that it is compared with.
int run_program(int argc, const char* const* argv, const Chapter& chapter, const std::vector<Chapter>& list,
                const AfterTheStory& after = {});

}  // namespace kvbook

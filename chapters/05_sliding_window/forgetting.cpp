#include "chapters/05_sliding_window/forgetting.h"

#include <fmt/format.h>

#include "chapters/chapters.h"
#include "common/console_text.h"
#include "common/ids.h"

namespace kvbook {
namespace {

constexpr int64_t kSmallWindow = 64;
constexpr size_t kColumn = 54;

/// The first tale only: prompt and answer, up to the end-of-text token.
std::string first_tale(const NamedModel& model, const ProgramOptions& options, int64_t window,
                       const std::vector<int64_t>& prompt) {
  ProgramOptions with_window = options;
  with_window.window = window;
  const Conversation said = converse_quietly(find_chapter("05_sliding_window"), model, with_window, {prompt});
  std::vector<int64_t> ids = prompt;
  for (const int64_t id : to_ids(said.last().new_ids)) {
    if (model.tokenizer->end_of_text() == id) break;
    ids.push_back(id);
  }
  return readable(model.tokenizer.get(), ids);
}

}  // namespace

void show_forgetting(const NamedModel& model, const ProgramOptions& options, const Conversation& said) {
  const int64_t context = model.checkpoint.config.context;
  const int64_t window = options.window.value_or(kSmallWindow);
  const auto positions = static_cast<int64_t>(said.inputs.front().size()) + said.answers.front().new_ids.size(1) - 1;
  if (said.inputs.size() > 1) return;  // two columns have room for one answer
  if (!model.tokenizer || window >= std::min(context, positions)) return;

  const auto full = wrapped(first_tale(model, options, context, said.inputs.front()), kColumn);
  const auto small = wrapped(first_tale(model, options, window, said.inputs.front()), kColumn);
  fmt::print("\n{:<{}}  {}\n", fmt::format("window {} (all of the context)", context), kColumn,
             fmt::format("window {}", window));
  for (size_t i = 0; i < std::max(full.size(), small.size()); ++i) {
    fmt::print("{:<{}}  {}\n", i < full.size() ? full[i] : "", kColumn, i < small.size() ? small[i] : "");
  }
}

}  // namespace kvbook

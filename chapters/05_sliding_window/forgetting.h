// One tale told twice, side by side: with the whole context in sight, and with a small window.
#pragma once

#include "common/program.h"

namespace kvbook {

/// Prints two columns: the story at the full window, and at --window (or 64, which a tale is longer than). Models
/// without a tokenizer have nothing to read: nothing is printed then, nor where the window hides nothing.
void show_forgetting(const NamedModel& model, const ProgramOptions& options, const Conversation& said);

}  // namespace kvbook

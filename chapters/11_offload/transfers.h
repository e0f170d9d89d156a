// What a conversation moved between memory and the file, and how long it waited.
#pragma once

#include "common/program.h"

namespace kvbook {

/// Answers the first prompt once more on a cache of its own, and prints a line about its transfers.
void show_transfers(const NamedModel& model, const ProgramOptions& options, const Conversation& said);

}  // namespace kvbook

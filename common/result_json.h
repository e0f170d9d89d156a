// A run as JSON, in the contract's words.
#pragma once

#include <string>

#include "common/batch_program.h"

namespace kvbook {

/// One JSON object and a line end. A value without meaning is null.
std::string result_json(const Chapter& chapter, const ProgramOptions& options, const Conversation& said);

/// The same for several prompts: what belongs to one of them stands in `rows`.
std::string result_json(const Chapter& chapter, const ProgramOptions& options, const BatchConversation& said);

}  // namespace kvbook

// A run as JSON, in the contract's words.
#pragma once

#include <string>

#include "common/program.h"

namespace kvbook {

/// One JSON object and a line end. A value without meaning is null.
std::string result_json(const Chapter& chapter, const ProgramOptions& options, const Conversation& said);

}  // namespace kvbook

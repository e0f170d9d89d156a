// A trace as JSON: what --trace=FILE writes and the pictures are drawn from.
#pragma once

#include <string>

#include "common/chapter.h"
#include "common/tokenizer.h"
#include "common/trace.h"

namespace kvbook {

/// {chapter, model, forwards: [{first_position, ids, text, before, after, visible, bytes}]}. before and after hold the
/// position in each slot, -1: none. visible holds a row of 0 and 1 for every token fed. text is null without a
/// tokenizer.
std::string trace_json(const Chapter& chapter, const std::string& model, const Tokenizer* tokenizer,
                       const std::vector<TracedForward>& forwards);

}  // namespace kvbook

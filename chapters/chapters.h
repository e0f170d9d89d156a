// Every chapter, in order: the one list that programs, tour, tests and table read.
#pragma once

#include <string>
#include <vector>

#include "common/chapter.h"

namespace kvbook {

const std::vector<Chapter>& chapters();

/// Those whose tokens are promised: all that round nothing.
std::vector<Chapter> exact_chapters();

/// @throws c10::ValueError for a name that is not in the list.
const Chapter& find_chapter(const std::string& name);

}  // namespace kvbook

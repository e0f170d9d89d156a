// Every failure that the chapters so far can show.
#pragma once

#include "tests/failures/failure.h"

namespace kvbook {

/// In the order of the field guide, book/field_guide.md.
const std::vector<Failure>& failures();

/// @throws UsageError if there is none of this name.
const Failure& find_failure(const std::string& name);

}  // namespace kvbook

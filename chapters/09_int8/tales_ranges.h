// What chapter 9's program takes the ranges of its channels from.
#pragma once

#include "common/chapter.h"
#include "common/model_source.h"

namespace kvbook {

/// Of 100 tales that the small model was not trained on (data/tales/calibration.txt), or, for a model without a
/// tokenizer, of 100 drawn texts of 64 ids, or of as many as its context has. Shows progress on a terminal.
KeyValueRanges tales_ranges(const NamedModel& model);

}  // namespace kvbook

// The reader's cache as a chapter, so that programs and checks can take it like one.
#pragma once

#include "common/chapter.h"

namespace kvbook {

/// Named "my_cache". Takes every flag: what a cache does with them is the reader's matter.
Chapter my_chapter();

}  // namespace kvbook

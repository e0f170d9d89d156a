// The only file that sees my_cache.h, so that an edit of it compiles this one alone.
#include "workshop/my_chapter.h"

#include "workshop/my_cache.h"

namespace kvbook {

Chapter my_chapter() {
  return {.name = "my_cache",
          .same_tokens_as = "01_naive",
          .change = "your own cache, workshop/my_cache.h",
          .takes_chunk = true,
          .takes_turns = true,
          .takes_window = true,
          .takes_capacity = true,
          .make_cache = [](const ModelShape& shape, const CacheOptions& options) {
            return std::make_unique<MyCache>(shape, options);
          }};
}

}  // namespace kvbook

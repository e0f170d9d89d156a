#include "common/chapter.h"

#include "common/cached_session.h"

namespace kvbook {

std::unique_ptr<Session> open_session(const Chapter& chapter, const Checkpoint& checkpoint, const CacheOptions& options,
                                      const ForwardListener& on_forward) {
  if (chapter.open_uncached) return chapter.open_uncached(checkpoint);
  return std::make_unique<CachedSession>(Gpt2(checkpoint), chapter.make_cache(checkpoint.config.shape(), options),
                                         on_forward);
}

}  // namespace kvbook

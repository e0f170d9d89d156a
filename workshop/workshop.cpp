// build/bin/workshop: which promises your cache keeps; or a chapter's, or that of a step of the text, in its place.
#include "chapters/chapters.h"
#include "tests/workshop/steps.h"
#include "workshop/checker/run_workshop.h"
#include "workshop/my_chapter.h"

int main(int argc, char** argv) {
  std::vector<kvbook::Chapter> caches = {kvbook::my_chapter()};
  for (const kvbook::Chapter& step : kvbook::workshop_steps()) caches.push_back(step);
  for (const kvbook::Chapter& chapter : kvbook::chapters()) {
    if (chapter.make_cache) caches.push_back(chapter);
  }
  return kvbook::run_workshop(argc, argv, caches);
}

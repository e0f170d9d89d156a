#include "chapters/run_chapter.h"

#include "chapters/05_sliding_window/forgetting.h"
#include "chapters/chapters.h"
#include "common/program.h"

namespace kvbook {

int run_chapter(int argc, const char* const* argv, const std::string& name) {
  const Chapter& chapter = find_chapter(name);
  const bool forgets = name == "05_sliding_window";
  return run_program(argc, argv, chapter, chapters(), forgets ? show_forgetting : AfterTheStory{});
}

}  // namespace kvbook

// build/bin/05_sliding_window: tells a story, compares, and shows what a small window forgets.
#include "chapters/05_sliding_window/forgetting.h"
#include "chapters/chapters.h"
#include "common/program.h"

int main(int argc, char** argv) {
  const kvbook::Chapter& chapter = kvbook::find_chapter("05_sliding_window");
  return kvbook::run_chapter(argc, argv, chapter, kvbook::chapters(), kvbook::show_forgetting);
}

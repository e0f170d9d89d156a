// build/bin/04_preallocated: tells a story with this chapter's model and cache, then compares.
#include "chapters/chapters.h"
#include "common/program.h"

int main(int argc, char** argv) {
  return kvbook::run_chapter(argc, argv, kvbook::find_chapter("04_preallocated"), kvbook::chapters());
}

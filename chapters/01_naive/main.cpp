// build/bin/01_naive: tells a story without a cache.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "01_naive"); }

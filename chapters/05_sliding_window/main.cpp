// build/bin/05_sliding_window: tells the story of chapter 4, and what a small window makes of it.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "05_sliding_window"); }

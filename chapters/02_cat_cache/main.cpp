// build/bin/02_cat_cache: tells the story of chapter 1 with a growing cache.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "02_cat_cache"); }

// build/bin/03_masked_offsets: tells the story of chapter 2, in chunks and turns if asked to.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "03_masked_offsets"); }

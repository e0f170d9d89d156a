// build/bin/my_cache: runs your cache like a chapter's program, and compares its tokens with those of chapter 1.
#include "chapters/chapters.h"
#include "common/program.h"
#include "workshop/my_chapter.h"

int main(int argc, char** argv) { return kvbook::run_program(argc, argv, kvbook::my_chapter(), kvbook::chapters()); }

// build/bin/08_paged: the same in pages of a pool, which prompts with the same beginning share.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "08_paged"); }

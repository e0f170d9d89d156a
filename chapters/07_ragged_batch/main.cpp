// build/bin/07_ragged_batch: several prompts at once, of any lengths, each told as if it were alone.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "07_ragged_batch"); }

// build/bin/04_preallocated: tells the story of chapter 3 from buffers made once.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "04_preallocated"); }

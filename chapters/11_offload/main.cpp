// build/bin/11_offload: tells the story with most of its keys and values in a file.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "11_offload"); }

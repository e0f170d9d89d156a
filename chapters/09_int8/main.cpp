// build/bin/09_int8: keys and values in 8 bits; --scales says how many of them share a scale.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "09_int8"); }

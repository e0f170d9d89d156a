// build/bin/10_layer_windows: tells the story with a window in some layers and the whole context in the others.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "10_layer_windows"); }

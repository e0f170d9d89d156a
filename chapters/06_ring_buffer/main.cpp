// build/bin/06_ring_buffer: tells the story of chapter 5, at any window, without moving a token.
#include "chapters/run_chapter.h"

int main(int argc, char** argv) { return kvbook::run_chapter(argc, argv, "06_ring_buffer"); }

// The workshop's program for caches that are half done, and for an unchanged starter; run by workshop_test.
#include "tests/workshop/half_done_caches.h"
#include "workshop/checker/run_workshop.h"

int main(int argc, char** argv) { return kvbook::run_workshop(argc, argv, kvbook::half_done_caches()); }

#include "chapters/run_chapter.h"

#include <map>

#include "chapters/05_sliding_window/forgetting.h"
#include "chapters/11_offload/transfers.h"
#include "chapters/chapters.h"
#include "common/program.h"

namespace kvbook {

int run_chapter(int argc, const char* const* argv, const std::string& name) {
  static const std::map<std::string, AfterTheStory> kAfter = {{"05_sliding_window", show_forgetting},
                                                              {"11_offload", show_transfers}};
  const auto after = kAfter.find(name);
  return run_program(argc, argv, find_chapter(name), chapters(), after != kAfter.end() ? after->second : nullptr);
}

}  // namespace kvbook

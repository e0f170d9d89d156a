// Windows a layer, counted from the wrong end.
#include "chapters/10_layer_windows/layer_windows_cache.h"
#include "tests/failures/failure.h"

namespace kvbook {
namespace {

// ANCHOR: fault
std::vector<int64_t> from_the_wrong_end(const std::vector<int64_t>& windows) {
  return {windows.rbegin(), windows.rend()};  // wrong: the list begins with layer 0
}
// ANCHOR_END: fault

}  // namespace

Failure windows_on_the_wrong_layers() {
  return {.chapter = broken("10_layer_windows", "windows_on_the_wrong_layers", "gives the windows to other layers",
                            [](const ModelShape& shape, const CacheOptions& options) {
                              const auto windows = from_the_wrong_end(options.layer_windows);
                              return std::make_unique<LayerWindowsCache>(shape, windows);
                            }),
          .check = "Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees",
          .symptom = "as many bytes as it should have, fluent text, and facts forgotten that others keep",
          .cure = "compare with a mask a layer, on a list that is not the same from both ends: chapter 10",
          .scene = {.new_tokens = 120, .layer_windows = {64, 64, 0, 0}}};
}

}  // namespace kvbook

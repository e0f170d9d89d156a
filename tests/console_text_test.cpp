// How text is laid out for a terminal.
#include "common/console_text.h"

#include <gtest/gtest.h>

namespace kvbook {
namespace {

TEST(Wrapped, BreaksLinesAtSpacesAndKeepsLongWordsWhole) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("a verylongword b", 4), (std::vector<std::string>{"a", "verylongword", "b"}));
  EXPECT_EQ(wrapped("", 4), std::vector<std::string>{""});
}

}  // namespace
}  // namespace kvbook

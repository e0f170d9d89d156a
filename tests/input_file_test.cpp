// A read gives exactly the bytes that were asked for, or an error.
#include "common/input_file.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvbook {
namespace {

class InputFileTest : public testing::Test {
 protected:
  InputFileTest()
      : path_(std::filesystem::path(testing::TempDir()) / ("kvbook_input_file_test_" + std::to_string(getpid()))) {
    std::ofstream(path_, std::ios::binary) << "abcdef";
  }
  ~InputFileTest() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(InputFileTest, ReadsFromAnyPlace) {
  InputFile file(path_);
  EXPECT_EQ(file.size(), 6);
  std::string bytes(2, '\0');
  file.read(4, 2, bytes.data());
  EXPECT_EQ(bytes, "ef");
  file.read(0, 2, bytes.data());
  EXPECT_EQ(bytes, "ab");
}

TEST_F(InputFileTest, AReadPastTheEndIsRefusedAndTheNextOneWorks) {
  InputFile file(path_);
  std::string bytes(4, '\0');
  EXPECT_THROW(file.read(3, 4, bytes.data()), c10::ValueError);
  file.read(2, 4, bytes.data());
  EXPECT_EQ(bytes, "cdef");
}

TEST_F(InputFileTest, TheLimitOfATextIsInclusive) {
  EXPECT_EQ(read_text(path_, 6), "abcdef");
  EXPECT_THROW(read_text(path_, 5), c10::ValueError);
}

}  // namespace
}  // namespace kvbook

// A .safetensors file is checked as a whole before a tensor is read; every broken file is refused with its own message.
#include "common/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace kvbook {
namespace {

/// The eight bytes of a header's length.
std::string length_bytes(uint64_t length) {
  std::string bytes(8, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return bytes;
}

std::string file_bytes(const std::string& header, const std::string& data = "") {
  return length_bytes(header.size()) + header + data;
}

/// A description such as "a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}.
std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest()
      : folder_(std::filesystem::path(testing::TempDir()) / ("kvbook_safetensors_test_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "model.safetensors"; }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  SafetensorsFile open(const std::string& bytes) const {
    write(bytes);
    return SafetensorsFile(path());
  }

  /// The message of a refusal to open, without the backtrace; empty if the file is accepted.
  std::string refusal() const {
    try {
      SafetensorsFile file(path());
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }

  std::filesystem::path folder_;
};

// Case 16.

struct Broken {
  std::string name;  // of the test
  std::string bytes;
  const char* message;  // a piece of it, in no other refusal
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenSafetensors : public SafetensorsTest, public testing::WithParamInterface<Broken> {};

TEST_P(BrokenSafetensors, Case16IsRefusedWithItsOwnMessage) {
  write(GetParam().bytes);
  const std::string message = refusal();
  EXPECT_EQ(message.find(path().string() + ": "), 0u) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
}

const std::string kFourBytes(4, '\0');
const std::string kEightBytes(8, '\0');

/// A file with one tensor "a" and four bytes of data.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return file_bytes("{" + tensor("a", dtype, shape, offsets) + "}", kFourBytes);
}

/// A file with two tensors of one byte each in front of `data`.
std::string two(const std::string& first, const std::string& second, const std::string& data) {
  return file_bytes("{" + tensor("a", "U8", "[2]", first) + "," + tensor("b", "U8", "[2]", second) + "}", data);
}

const std::vector<Broken> kBroken = {
    // The header's length.
    {"Empty", "", "has 0 bytes, a safetensors file at least 8"},
    {"ShorterThanItsLength", "1234567", "has 7 bytes, a safetensors file at least 8"},
    {"HeaderLengthOf2To63", length_bytes(uint64_t{1} << 63) + "{}", "claims 9223372036854775808 bytes, more than"},
    {"HeaderLengthOfAllOnes", length_bytes(UINT64_MAX) + "{}", "claims 18446744073709551615 bytes, more than"},
    {"HeaderLengthAboveTheLimit", length_bytes(100'000'001) + "{}", "claims 100000001 bytes, more than 100000000"},
    {"HeaderLengthAtTheLimit", length_bytes(100'000'000) + "{}", "claims 100000000 bytes, the file has only 2"},
    {"HeaderPastTheEnd", length_bytes(3) + "{}", "claims 3 bytes, the file has only 2"},
    {"ATextFile", "version https://git-lfs.github.com/spec/v1\n", "not a safetensors file?"},
    // The header as JSON.
    {"NoHeader", file_bytes(""), "does not begin with '{'"},
    {"SpaceBeforeTheHeader", file_bytes(" {}"), "does not begin with '{'"},
    {"AListForAHeader", file_bytes("[]"), "does not begin with '{'"},
    {"HeaderNotJson", file_bytes("{\"a\":"), "not valid JSON near byte 6"},
    {"TextAfterTheHeader", file_bytes("{}x"), "not valid JSON"},
    {"NulPadding", file_bytes(std::string("{}\0\0", 4)), "a NUL byte at byte 3"},
    {"NestedDeeply", file_bytes("{\"a\":" + std::string(100000, '[')), "nested deeper than 64"},
    {"NameNotUtf8", file_bytes("{\"\xc3(\":0}"), "not valid JSON"},
    {"NameWithNul", file_bytes("{" + tensor("a\\u0000b", "U8", "[0]", "[0,0]") + "}"), "has a NUL in its name"},
    {"ANameTwice",
     file_bytes("{" + tensor("a", "F32", "[1]", "[0,4]") + "," + tensor("a", "F32", "[1]", "[0,4]") + "}", kFourBytes),
     "the key \"a\" appears twice"},
    {"AFieldTwice", file_bytes(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", kFourBytes),
     "the key \"dtype\" appears twice"},
    {"AnEscapedNameTwice",
     file_bytes("{" + tensor("a", "U8", "[0]", "[0,0]") + "," + tensor("\\u0061", "U8", "[0]", "[0,0]") + "}"),
     "the key \"a\" appears twice"},
    // The fields of an entry.
    {"EntryNotAnObject", file_bytes(R"({"a":[]})"), "\"a\" is not described by an object"},
    {"NoDtype", file_bytes(R"({"a":{"shape":[4],"data_offsets":[0,4]}})", kFourBytes), "\"a\" has no dtype"},
    {"NoShape", file_bytes(R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", kFourBytes), "\"a\" has no shape"},
    {"NoOffsets", file_bytes(R"({"a":{"dtype":"U8","shape":[4]}})", kFourBytes), "\"a\" has no data_offsets"},
    {"AFieldTooMany", file_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", kFourBytes),
     "unknown field \"x\""},
    {"UnknownDtype", one("F31", "[1]", "[0,4]"), "the unknown dtype \"F31\""},
    {"DtypeInLowerCase", one("f32", "[1]", "[0,4]"), "the unknown dtype \"f32\""},
    {"DtypeNotAString", file_bytes(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", kFourBytes),
     "a dtype that is not a string"},
    {"ShapeNotAList", one("F32", "1", "[0,4]"), "a shape that is not a list"},
    {"ShapeWithAFraction", one("F32", "[1.0]", "[0,4]"), "a shape with something else than an integer"},
    {"ShapeWithAString", one("F32", "[\"1\"]", "[0,4]"), "a shape with something else than an integer"},
    {"NegativeShape", one("F32", "[-1]", "[0,4]"), "a negative number in its shape"},
    {"TwoNegativeSizes", one("F32", "[-1,-1]", "[0,4]"), "a negative number in its shape"},
    {"ShapeBeyondInt64", one("F32", "[9223372036854775808]", "[0,4]"), "a number beyond 2^63 in its shape"},
    {"OffsetsNotAList", one("F32", "[1]", "{\"begin\":0}"), "a data_offsets that is not a list"},
    {"OneOffset", one("F32", "[1]", "[0]"), "1 data_offsets, expected begin and end"},
    {"ThreeOffsets", one("F32", "[1]", "[0,4,4]"), "3 data_offsets, expected begin and end"},
    {"OffsetsWithAFraction", one("F32", "[1]", "[0,4.0]"), "a data_offsets with something else than an integer"},
    {"NegativeOffset", one("F32", "[1]", "[-4,0]"), "a negative number in its data_offsets"},
    {"OffsetBeyondInt64", one("F32", "[1]", "[0,18446744073709551615]"), "a number beyond 2^63 in its data_offsets"},
    // The range of an entry.
    {"BeginAfterEnd", one("F32", "[1]", "[4,0]"), "begins at byte 4, after its end at 0"},
    {"EndPastTheFile", one("F32", "[2]", "[0,8]"), "ends at byte 8, the data has only 4"},
    {"EndFarPastTheFile", one("F32", "[1]", "[0,9223372036854775807]"), "ends at byte 9223372036854775807"},
    {"RangeLargerThanShape", one("F16", "[1]", "[0,4]"), "dtype F16 and shape [1] needs 2 bytes, its range has 4"},
    {"RangeSmallerThanShape", one("F64", "[1]", "[0,4]"), "dtype F64 and shape [1] needs 8 bytes, its range has 4"},
    {"RangeOfAnEmptyShape", one("F32", "[0]", "[0,4]"), "needs 0 bytes, its range has 4"},
    {"RangeOfAScalar", one("F16", "[]", "[0,4]"), "needs 2 bytes, its range has 4"},
    {"HalfAByte", file_bytes("{" + tensor("a", "F4", "[7]", "[0,4]") + "}", kFourBytes), "does not fill whole bytes"},
    {"ShapeProductOverflow", one("F32", "[4294967296,4294967296]", "[0,4]"), "a shape whose product overflows"},
    {"BytesOverflow", one("F32", "[4611686018427387905]", "[0,4]"), "a shape whose product overflows"},
    {"OverflowBesideAZero", one("F32", "[0,4294967296,4294967296]", "[0,0]"), "a shape whose product overflows"},
    // All ranges together.
    {"Overlap", two("[0,2]", "[1,3]", "abc"), "\"b\" begins at byte 1, inside the one before"},
    {"TheSameRange", two("[0,2]", "[0,2]", "ab"), "they overlap"},
    {"Gap", two("[0,2]", "[3,5]", "abcde"), "\"b\" begins at byte 3, the one before ends at 2: there is a gap"},
    {"GapInFront", one("U8", "[3]", "[1,4]"), "\"a\" begins at byte 1, the one before ends at 0: there is a gap"},
    {"TrailingBytes", one("U8", "[3]", "[0,3]"), "1 trailing bytes"},
    {"TrailingBytesOfNoTensor", file_bytes("{}", "x"), "1 trailing bytes"},
    // What is not a tensor.
    {"MetadataNotAnObject", file_bytes(R"({"__metadata__":"pt"})"), "__metadata__ is not an object"},
    {"MetadataNotOfStrings", file_bytes(R"({"__metadata__":{"format":1}})"), "a value that is not a string"},
    // Names are shown on one line, and not whole when they are long.
    {"ANameWithANewline", file_bytes("{" + tensor("a\\nb", "F31", "[0]", "[0,0]") + "}"), "tensor \"a\\x0ab\""},
    {"ALongName", file_bytes("{" + tensor(std::string(100000, 'n'), "F31", "[0]", "[0,0]") + "}"), "nnn...\" has the"},
};

INSTANTIATE_TEST_SUITE_P(All, BrokenSafetensors, testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

TEST_F(SafetensorsTest, Case16EveryTruncationOfAGoodFileIsRefused) {
  const std::string good = two("[0,2]", "[2,4]", "abcd");
  write(good);
  ASSERT_EQ(refusal(), "");
  for (size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    EXPECT_NE(refusal(), "") << size << " bytes";
  }
}

TEST_F(SafetensorsTest, Case16AHugeClaimAllocatesNothing) {
  // A sparse file: the header of 2^63 - 9 bytes that it claims would fit an unchecked sum.
  write(length_bytes(INT64_MAX - 8));
  std::filesystem::resize_file(path(), int64_t{1} << 40);
  EXPECT_NE(refusal().find("more than 100000000"), std::string::npos);
}

TEST_F(SafetensorsTest, AMissingFileIsRefused) { EXPECT_EQ(refusal(), path().string() + ": no such file"); }

TEST_F(SafetensorsTest, AFolderIsRefused) {
  std::filesystem::create_directory(path());
  EXPECT_EQ(refusal(), path().string() + ": not a regular file");
}

TEST_F(SafetensorsTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(refusal(), path().string() + ": not a regular file");
}

TEST_F(SafetensorsTest, AnUnreadableFileIsRefused) {
  write(file_bytes("{}"));
  std::filesystem::permissions(path(), std::filesystem::perms::none);
  const bool root = geteuid() == 0;  // may read everything, so tries as somebody else
  constexpr uid_t kNobody = 65534;
  if (root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const std::string said = refusal();
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(said, path().string() + ": cannot be opened for reading");
}

// Files that look odd and are legal.

TEST_F(SafetensorsTest, AnEmptyHeaderIsLegal) { EXPECT_TRUE(open(file_bytes("{}")).entries().empty()); }

TEST_F(SafetensorsTest, SpacesAfterTheHeaderAreLegal) {
  const auto file = open(file_bytes("{" + tensor("a", "U8", "[4]", "[0,4]") + "}     ", kFourBytes));
  EXPECT_EQ(file.entries().size(), 1u);
}

TEST_F(SafetensorsTest, MetadataIsNotATensor) {
  const auto file = open(file_bytes(R"({"__metadata__":{"format":"pt"}})"));
  EXPECT_TRUE(file.entries().empty());
}

TEST_F(SafetensorsTest, TensorsMayBeDescribedInAnyOrder) {
  const auto file = open(two("[2,4]", "[0,2]", "abcd"));
  EXPECT_EQ(file.entries().at("a").begin, 2);
  EXPECT_EQ(file.entries().at("b").begin, 0);
}

TEST_F(SafetensorsTest, EveryDtypeOfTheFormatIsKnown) {
  const std::vector<std::pair<std::string, int>> bytes_of_8 = {
      {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
      {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},    {"I64", 64},
      {"U64", 64}, {"F64", 64}, {"C64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},
  };
  for (const auto& [dtype, bytes] : bytes_of_8) {
    const std::string range = "[0," + std::to_string(bytes) + "]";
    write(file_bytes("{" + tensor("a", dtype, "[2,4]", range) + "}", std::string(bytes, 'x')));
    EXPECT_EQ(refusal(), "") << dtype;
  }
}

TEST_F(SafetensorsTest, ATensorWithoutElementsIsLegal) {
  const auto file =
      open(file_bytes("{" + tensor("a", "F32", "[3,0,2]", "[0,0]") + "," + tensor("b", "U8", "[4]", "[0,4]") + "," +
                          tensor("c", "F16", "[0]", "[4,4]") + "}",
                      kFourBytes));
  EXPECT_EQ(file.load("a").sizes(), (std::vector<int64_t>{3, 0, 2}));
  EXPECT_EQ(file.load("c").numel(), 0);
}

TEST_F(SafetensorsTest, AScalarIsLegal) {
  const auto file = open(one("F32", "[]", "[0,4]"));
  EXPECT_EQ(file.load("a").dim(), 0);
  EXPECT_EQ(file.load("a").item<float>(), 0.0f);
}

// Loading. The bit patterns are those of IEEE 754 and of the definition of bfloat16.

TEST_F(SafetensorsTest, Float32IsReadBitForBit) {
  const std::string data("\x00\x00\x80\x3f\x01\x00\x00\x00\x00\x00\x80\xff\x00\x00\x00\x80", 16);
  const torch::Tensor loaded = open(file_bytes("{" + tensor("a", "F32", "[2,2]", "[0,16]") + "}", data)).load("a");
  ASSERT_EQ(loaded.scalar_type(), torch::kFloat32);
  EXPECT_EQ(loaded[0][0].item<float>(), 1.0f);
  EXPECT_EQ(loaded[0][1].item<float>(), std::bit_cast<float>(uint32_t{1}));  // the smallest subnormal
  EXPECT_EQ(loaded[1][0].item<float>(), -INFINITY);
  EXPECT_TRUE(std::signbit(loaded[1][1].item<float>()));
}

TEST_F(SafetensorsTest, Float16PatternsHaveTheirValues) {
  //                     1        -2       65504    2^-24    2^-14    +inf     nan      1/3 rounded
  const std::string data("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x04\x00\x7c\x00\x7e\x55\x35", 16);
  const torch::Tensor loaded = open(file_bytes("{" + tensor("a", "F16", "[8]", "[0,16]") + "}", data)).load("a");
  ASSERT_EQ(loaded.scalar_type(), torch::kFloat16);
  const torch::Tensor wide = loaded.to(torch::kFloat64);
  const double want[] = {1.0, -2.0, 65504.0, std::ldexp(1.0, -24), std::ldexp(1.0, -14), INFINITY};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(wide[i].item<double>(), want[i]) << i;
  EXPECT_TRUE(std::isnan(wide[6].item<double>()));
  EXPECT_EQ(wide[7].item<double>(), 0.333251953125);
}

TEST_F(SafetensorsTest, BFloat16PatternsHaveTheirValues) {
  //                     1        -2       3.140625 2^-133   -inf     nan
  const std::string data("\x80\x3f\x00\xc0\x49\x40\x01\x00\x80\xff\xc0\x7f", 12);
  const torch::Tensor loaded = open(file_bytes("{" + tensor("a", "BF16", "[6]", "[0,12]") + "}", data)).load("a");
  ASSERT_EQ(loaded.scalar_type(), torch::kBFloat16);
  const torch::Tensor wide = loaded.to(torch::kFloat64);
  const double want[] = {1.0, -2.0, 3.140625, std::ldexp(1.0, -133), -INFINITY};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(wide[i].item<double>(), want[i]) << i;
  EXPECT_TRUE(std::isnan(wide[5].item<double>()));
}

TEST_F(SafetensorsTest, OtherDtypesAreNotLoaded) {
  const auto file = open(one("I32", "[1]", "[0,4]"));
  try {
    file.load("a");
    FAIL() << "was loaded";
  } catch (const c10::ValueError& error) {
    EXPECT_EQ(std::string(error.what_without_backtrace()),
              path().string() + ": tensor \"a\" is I32, only F32, F16 and BF16 are loaded");
  }
}

TEST_F(SafetensorsTest, AnUnknownNameIsNotLoaded) {
  const auto file = open(one("F32", "[1]", "[0,4]"));
  EXPECT_THROW(file.load("b"), c10::ValueError);
}

TEST_F(SafetensorsTest, AFileThatShrankMeanwhileIsNotLoaded) {
  const auto file = open(one("F32", "[1]", "[0,4]"));
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  EXPECT_THROW(file.load("a"), c10::ValueError);
}

TEST_F(SafetensorsTest, AFileThatGrewMeanwhileIsNotLoaded) {
  const auto file = open(one("F32", "[1]", "[0,4]"));
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) + 1);
  EXPECT_THROW(file.load("a"), c10::ValueError);
}

TEST_F(SafetensorsTest, AFileThatWentMeanwhileIsNotLoaded) {
  const auto file = open(one("F32", "[1]", "[0,4]"));
  std::filesystem::remove(path());
  EXPECT_THROW(file.load("a"), c10::ValueError);
}

TEST_F(SafetensorsTest, Case17AnOddHeaderLengthGivesAlignedTensorsThatOutliveTheFile) {
  const std::string data("\x7f\x00\x00\x80\x3f\x00\x00\x00\x40", 9);  // one byte, then 1 and 2 as float32
  std::string header = "{" + tensor("byte", "U8", "[1]", "[0,1]") + "," + tensor("a", "F32", "[2]", "[1,9]") + "}";
  if (header.size() % 2 == 0) header += ' ';
  ASSERT_EQ(header.size() % 2, 1u);

  torch::Tensor loaded;
  {
    const auto file = open(file_bytes(header, data));
    loaded = file.load("a");
  }
  std::filesystem::remove(path());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded.data_ptr()) % 64, 0u);
  EXPECT_TRUE(loaded.is_contiguous());
  EXPECT_EQ(loaded.storage().nbytes(), 8u);
  EXPECT_EQ(loaded[0].item<float>(), 1.0f);
  EXPECT_EQ(loaded[1].item<float>(), 2.0f);
}

TEST_F(SafetensorsTest, TwoLoadsShareNoMemory) {
  const auto file = open(one("F32", "[1]", "[0,4]"));
  const torch::Tensor first = file.load("a");
  file.load("a").fill_(1);
  EXPECT_EQ(first.item<float>(), 0.0f);
}

}  // namespace
}  // namespace kvbook

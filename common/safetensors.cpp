#include "common/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/input_file.h"
#include "common/strict_json.h"

namespace kvbook {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian and are read without swapping");

using nlohmann::json;
using Entry = SafetensorsFile::Entry;

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation
constexpr int64_t kBitsPerByte = 8;

/// Bits of one element of every dtype that the format has; 0 for anything else.
int64_t element_bits(const std::string& dtype) {
  static const std::map<int64_t, std::set<std::string>> dtypes = {
      {4, {"F4"}},
      {6, {"F6_E2M3", "F6_E3M2"}},
      {8, {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}},
      {16, {"I16", "U16", "F16", "BF16"}},
      {32, {"I32", "U32", "F32"}},
      {64, {"I64", "U64", "F64", "C64"}},
  };
  for (const auto& [bits, names] : dtypes) {
    if (names.contains(dtype)) return bits;
  }
  return 0;
}

/// Reads one entry of the header; every message begins with the file and the tensor.
class EntryReader {
 public:
  EntryReader(const std::string& where, const std::string& name) : where_(where + ": tensor " + quoted_name(name)) {}

  Entry read(const json& value, int64_t data_size) const {
    TORCH_CHECK_VALUE(value.is_object(), where_, " is not described by an object");
    for (const auto& [key, unused] : value.items()) {
      TORCH_CHECK_VALUE(key == "dtype" || key == "shape" || key == "data_offsets", where_, " has an unknown field ",
                        quoted_name(key));
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      TORCH_CHECK_VALUE(value.contains(key), where_, " has no ", key);
    }
    Entry entry;
    entry.dtype = read_dtype(value["dtype"]);
    entry.shape = read_integers(value["shape"], "shape");
    const std::vector<int64_t> offsets = read_integers(value["data_offsets"], "data_offsets");
    TORCH_CHECK_VALUE(offsets.size() == 2, where_, " has ", offsets.size(), " data_offsets, expected begin and end");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_range(entry, data_size);
    return entry;
  }

 private:
  std::string read_dtype(const json& value) const {
    TORCH_CHECK_VALUE(value.is_string(), where_, " has a dtype that is not a string");
    const auto& dtype = value.get_ref<const std::string&>();
    TORCH_CHECK_VALUE(element_bits(dtype) > 0, where_, " has the unknown dtype ", quoted_name(dtype));
    return dtype;
  }

  std::vector<int64_t> read_integers(const json& list, const char* field) const {
    TORCH_CHECK_VALUE(list.is_array(), where_, " has a ", field, " that is not a list");
    std::vector<int64_t> values;
    for (const json& value : list) {
      TORCH_CHECK_VALUE(value.is_number_integer(), where_, " has a ", field, " with something else than an integer");
      TORCH_CHECK_VALUE(value.is_number_unsigned(), where_, " has a negative number in its ", field);
      TORCH_CHECK_VALUE(value.get<uint64_t>() <= INT64_MAX, where_, " has a number beyond 2^63 in its ", field);
      values.push_back(value.get<int64_t>());
    }
    return values;
  }

  void check_range(const Entry& entry, int64_t data_size) const {
    TORCH_CHECK_VALUE(entry.begin <= entry.end, where_, " begins at byte ", entry.begin, ", after its end at ",
                      entry.end);
    TORCH_CHECK_VALUE(entry.end <= data_size, where_, " ends at byte ", entry.end, ", the data has only ", data_size);
    const int64_t bits = bits_of(entry);
    TORCH_CHECK_VALUE(bits % kBitsPerByte == 0, where_, " does not fill whole bytes");
    TORCH_CHECK_VALUE(bits / kBitsPerByte == entry.end - entry.begin, where_, " of dtype ", entry.dtype, " and shape ",
                      torch::IntArrayRef(entry.shape), " needs ", bits / kBitsPerByte, " bytes, its range has ",
                      entry.end - entry.begin);
  }

  /// Strides are products too, in which an empty axis counts as 1; so these must not overflow even if no byte is held.
  int64_t bits_of(const Entry& entry) const {
    int64_t product = element_bits(entry.dtype);
    for (const int64_t size : entry.shape) {
      const bool overflows = __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
      TORCH_CHECK_VALUE(!overflows, where_, " has a shape whose product overflows");
    }
    const bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
    return empty ? 0 : product;
  }

  std::string where_;
};

std::string read_header(InputFile& file, const std::string& where) {
  TORCH_CHECK_VALUE(file.size() >= kLengthBytes, where, ": has ", file.size(), " bytes, a safetensors file at least ",
                    kLengthBytes);
  std::array<char, kLengthBytes> bytes;
  file.read(0, kLengthBytes, bytes.data());
  const auto length = std::bit_cast<uint64_t>(bytes);
  TORCH_CHECK_VALUE(length <= kLongestHeader, where, ": the header claims ", length, " bytes, more than ",
                    kLongestHeader, ": not a safetensors file?");
  const auto header_size = static_cast<int64_t>(length);
  TORCH_CHECK_VALUE(header_size <= file.size() - kLengthBytes, where, ": the header claims ", header_size,
                    " bytes, the file has only ", file.size() - kLengthBytes, " after its length: cut short?");
  std::string header(header_size, '\0');
  file.read(kLengthBytes, header_size, header.data());
  TORCH_CHECK_VALUE(header.starts_with('{'), where, ": the header does not begin with '{'");
  return header;
}

void check_metadata(const json& metadata, const std::string& where) {
  TORCH_CHECK_VALUE(metadata.is_object(), where, ": __metadata__ is not an object");
  for (const auto& [key, value] : metadata.items()) {
    TORCH_CHECK_VALUE(value.is_string(), where, ": __metadata__ has a value that is not a string, at ",
                      quoted_name(key));
  }
}

/// The tensors must fill the data: each begins where the one before ends.
void check_no_gap_or_overlap(const std::map<std::string, Entry>& entries, int64_t data_size, const std::string& where) {
  std::vector<std::pair<const std::string*, const Entry*>> in_order;
  for (const auto& [name, entry] : entries) in_order.emplace_back(&name, &entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  int64_t filled = 0;
  for (const auto& [name, entry] : in_order) {
    TORCH_CHECK_VALUE(entry->begin >= filled, where, ": tensor ", quoted_name(*name), " begins at byte ", entry->begin,
                      ", inside the one before, which ends at ", filled, ": they overlap");
    TORCH_CHECK_VALUE(entry->begin <= filled, where, ": tensor ", quoted_name(*name), " begins at byte ", entry->begin,
                      ", the one before ends at ", filled, ": there is a gap");
    filled = entry->end;
  }
  TORCH_CHECK_VALUE(filled == data_size, where, ": ", data_size - filled, " trailing bytes that belong to no tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::string where = path_.string();
  InputFile file(path_);
  file_size_ = file.size();
  const std::string text = read_header(file, where);
  data_offset_ = kLengthBytes + static_cast<int64_t>(text.size());
  const int64_t data_size = file_size_ - data_offset_;

  const json header = parse_strict_json(text, where);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(value, where);
      continue;
    }
    TORCH_CHECK_VALUE(name.find('\0') == std::string::npos, where, ": tensor ", quoted_name(name),
                      " has a NUL in its name");
    entries_.emplace(name, EntryReader(where, name).read(value, data_size));
  }
  check_no_gap_or_overlap(entries_, data_size, where);
}

torch::Tensor SafetensorsFile::load(const std::string& name) const {
  const std::string where = path_.string();
  const auto found = entries_.find(name);
  TORCH_CHECK_VALUE(found != entries_.end(), where, ": there is no tensor ", quoted_name(name));
  const Entry& entry = found->second;
  static const std::unordered_map<std::string, torch::ScalarType> loadable = {
      {"F32", torch::kFloat32}, {"F16", torch::kFloat16}, {"BF16", torch::kBFloat16}};
  const auto dtype = loadable.find(entry.dtype);
  TORCH_CHECK_VALUE(dtype != loadable.end(), where, ": tensor ", quoted_name(name), " is ", entry.dtype,
                    ", only F32, F16 and BF16 are loaded");

  InputFile file(path_);
  TORCH_CHECK_VALUE(file.size() == file_size_, where, ": has changed since it was opened");
  torch::Tensor tensor = torch::empty(entry.shape, torch::TensorOptions().dtype(dtype->second));
  file.read(data_offset_ + entry.begin, entry.end - entry.begin, tensor.data_ptr());
  return tensor;
}

}  // namespace kvbook

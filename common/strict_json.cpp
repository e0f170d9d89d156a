#include "common/strict_json.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace kvbook {
namespace {

constexpr size_t kDeepest = 64;
constexpr size_t kLongestQuote = 80;

/// Follows the parser through the text and refuses what it would accept.
class Watcher {
 public:
  explicit Watcher(const std::string& where) : where_(where) {}

  void on(nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        TORCH_CHECK_VALUE(keys_.size() < kDeepest, where_, ": nested deeper than ", kDeepest, " levels");
        keys_.emplace_back();
        break;
      case Event::object_end:
      case Event::array_end:
        keys_.pop_back();
        break;
      case Event::key: {
        const auto& key = value.get_ref<const std::string&>();
        TORCH_CHECK_VALUE(keys_.back().insert(key).second, where_, ": the key ", quoted_name(key), " appears twice");
        break;
      }
      case Event::value:
        break;
    }
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;  // of each object or array that is open
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
  const size_t nul = text.find('\0');
  TORCH_CHECK_VALUE(nul == std::string_view::npos, where, ": not valid JSON: a NUL byte at byte ", nul + 1);
  Watcher watcher(where);
  const auto watch = [&watcher](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    watcher.on(event, value);
    return true;  // keep the value
  };
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    TORCH_CHECK_VALUE(false, where, ": not valid JSON near byte ", error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    TORCH_CHECK_VALUE(false, where, ": not valid JSON: a number is too large");
  }
  return parsed;
}

std::string quoted_name(std::string_view name) {
  std::string shown = "\"";
  for (const char c : name.substr(0, kLongestQuote)) {
    const bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    shown += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return shown + (name.size() > kLongestQuote ? "...\"" : "\"");
}

}  // namespace kvbook

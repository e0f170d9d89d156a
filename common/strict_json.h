// JSON from a file that is not trusted: what a lenient parser lets through in silence is refused here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kvbook {

/// Parses one JSON value. Refused, besides what is not JSON: a key that an object has twice (the usual parser keeps
/// the last in silence), nesting deeper than 64, a NUL byte (the parser takes it for the end), numbers beyond double.
/// `where` names the text in messages. @throws c10::ValueError, one line.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

/// A name from a file, for a message: in double quotes, on one line, cut when long, anything but plain ASCII escaped.
std::string quoted_name(std::string_view name);

}  // namespace kvbook

// What GoogleTest says of a failure, as a reader of the workshop's report wants it.
#pragma once

#include <string>

namespace kvbook {

/// One sentence on what came, from the message of a failed assertion and the name of its test. Knows the kinds of
/// message that the checks have; of any other it gives the first line.
std::string what_came(const std::string& message, const std::string& test_name);

}  // namespace kvbook

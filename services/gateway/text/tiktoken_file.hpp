// Reads a vocabulary in tiktoken's format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// The bytes of every token, by rank. `text` has a line "base64 rank" for each, in any order; `file` names it
/// in errors.
/// @throws text_error  a line is malformed, a rank or token occurs twice, a rank is missing, or one of the
/// 256 bytes is no token
std::vector<std::string> read_tiktoken(std::string_view text, const std::string& file);

} // namespace troupe::text

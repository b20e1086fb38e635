// The `pattern` members of tokenizer.json, and replacing their matches.
#pragma once

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/regex.hpp"

#include <string>
#include <string_view>

namespace troupe::text {

/// Reads `{"String": …}` or `{"Regex": …}`.
/// @throws text_error naming what is wrong
regex read_pattern(const json_view& json);

/// `text` with every match replaced by `content`.
/// @throws text_error  the result exceeds 256 MiB: a hostile tokenizer.json can multiply a text many times
/// over
std::string replace_all(const regex& pattern, std::string_view text, std::string_view content);

} // namespace troupe::text

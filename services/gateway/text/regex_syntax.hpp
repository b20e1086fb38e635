#pragma once

#include <string>
#include <string_view>

namespace troupe::text {

/// The PCRE2 pattern that matches what Oniguruma, the regular expressions of Hugging Face's tokenizers, makes
/// of
/// @p oniguruma. What differs and is translated: characters of newer Unicode versions, `\s \w \b \h`, `^ $`,
/// `(?m)`, `{,n}`, `{n}?`, `{n,m}+`,
/// `\uXXXX`, nested character classes and `&&` in them.
/// @throws text_error, without a place, for what has no counterpart.
std::string to_pcre2(std::string_view oniguruma);

} // namespace troupe::text

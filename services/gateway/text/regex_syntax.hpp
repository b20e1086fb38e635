// Translates Oniguruma's pattern syntax (that of Hugging Face's tokenizers) to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace troupe::text {

/// The PCRE2 pattern with the matches of `oniguruma`. Translated: characters of newer Unicode versions, `\s
/// \w \b \h`, `^ $`, `(?m)`, `{,n}`, `{n}?`, `{n,m}+`, `\uXXXX`, nested character classes and `&&` in them.
/// @throws text_error  a part has no counterpart; the text names no place
std::string to_pcre2(std::string_view oniguruma);

} // namespace troupe::text

// Decoding of compressed request bodies (RFC 9110, section 8.4).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::http {

/// How a body is coded.
enum class content_coding { identity, gzip, deflate };

/// The coding that the value of a Content-Encoding header names, in any case: gzip (also x-gzip), deflate,
/// identity or an empty value. Empty optional for any other coding, and for several in a row.
std::optional<content_coding> content_coding_of(std::string_view header);

/// Value of Accept-Encoding in the refusal of a coding.
inline constexpr const char* known_codings = "gzip, deflate";

/// Decodes a body. Accepts several gzip members in a row, and deflate both with zlib's frame (the standard)
/// and without it (some clients).
/// @param limit  bytes of the result; decoding stops beyond it
/// @throws openai::api_error 413 for a larger result, 400 for data that are damaged or incomplete
std::string decode_content(std::string_view coded, content_coding coding, std::size_t limit);

} // namespace troupe::http

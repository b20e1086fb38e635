// Bodies that clients have compressed (RFC 9110, section 8.4).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::http {

/// How a body is coded.
enum class content_coding { identity, gzip, deflate };

/// The coding that the value of a Content-Encoding header names, in any case: gzip (also x-gzip), deflate,
/// identity or nothing. Empty for another one, and for several in a row.
std::optional<content_coding> content_coding_of(std::string_view header);

/// What Accept-Encoding says of request bodies in a refusal.
inline constexpr const char* known_codings = "gzip, deflate";

/// Undoes `coding`. Takes members of gzip that follow one another, and deflate with zlib's frame as the
/// standard says or without it as some clients send it.
/// @param limit  bytes of the result; nothing is decoded beyond it
/// @throws openai::api_error 413 for a larger result, 400 for data that are damaged or incomplete
std::string decode_content(std::string_view coded, content_coding coding, size_t limit);

} // namespace troupe::http

// The id of a request in headers, bodies and logs.
#pragma once

#include <string>
#include <string_view>

namespace troupe::http {

/// A random id: 32 hexadecimal digits.
std::string draw_request_id();

/// The id that a client sent may be used: it has 1 to 128 letters, digits and ". _ : -".
bool is_sane_request_id(std::string_view id);

/// A header `traceparent` of W3C Trace Context (level 1) is valid: version, trace id, parent id and flags in
/// lower-case hexadecimal, no id that is all zeros, and nothing after them in version 00.
bool is_valid_traceparent(std::string_view text);

} // namespace troupe::http

// The name a request has in headers, bodies and logs.
#pragma once

#include <string>
#include <string_view>

namespace troupe::http {

/// A random one: 32 hexadecimal digits.
std::string draw_request_id();

/// Whether the client's own may be used: 1 to 128 letters, digits and ". _ : -".
bool is_sane_request_id(std::string_view id);

/// Whether a header `traceparent` of W3C Trace Context (level 1) may be passed on: version, trace id, parent
/// id and flags in lower-case hexadecimal, no id of zeros alone, and nothing behind them in version 00.
bool is_valid_traceparent(std::string_view text);

} // namespace troupe::http

// Path and query of a request target.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::http {

/// The path of a request target, still percent-encoded and without query: of origin-form, "/health?a", and of
/// absolute-form, "http://host/health?a", which clients send that take this server for a proxy (RFC 9112,
/// section 3.2). Other forms are given back as they are; empty for an absolute one without a host.
std::string_view path_of_target(std::string_view target);

/// The path under which a page is known: without empty segments and a final slash, which clients produce that
/// join a base URL and a path, and with the `/v1` that some clients leave out ("//models/" → "/v1/models").
std::string canonical_path(std::string path);

/// The text after the first "?" of a request target, as it was sent; empty without one.
std::string_view query_of_target(std::string_view target);

/// The first value of a parameter in a query such as "windows=3&all", still percent-encoded. An empty
/// optional if the parameter is missing; an empty value if it has none.
std::optional<std::string_view> parameter_of(std::string_view query, std::string_view name);

/// `%41` → `A`. @returns false when an escape is malformed
bool percent_decode(std::string_view encoded, std::string& decoded);

} // namespace troupe::http

// The header of a request as views of the parser's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::http {

/// Compares ASCII letters without case.
inline bool equal_in_any_case(std::string_view left, std::string_view right) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

/// Valid until the next request of the connection is read.
struct request_header {
  std::string_view method;
  std::string_view target;
  bool http_1_0 = false;
  bool keep_alive = false; ///< the client wants to keep the connection
  std::vector<std::pair<std::string_view, std::string_view>> fields;

  /// The first value of a field; empty optional: the field is missing.
  std::optional<std::string_view> find(std::string_view name) const {
    for (const auto& [key, value] : fields)
      if (equal_in_any_case(key, name))
        return value;
    return std::nullopt;
  }

  /// The first value of a field; empty: the field is missing or empty.
  std::string_view value(std::string_view name) const { return find(name).value_or(std::string_view{}); }

  bool has(std::string_view name) const { return find(name).has_value(); }

  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(std::count_if(fields.begin(), fields.end(), [&](const auto& field) {
      return equal_in_any_case(field.first, name);
    }));
  }

  /// All values of a field, with `separator` between them.
  std::string joined(std::string_view name, std::string_view separator) const {
    std::string all;
    for (const auto& [key, value] : fields)
      if (equal_in_any_case(key, name))
        all += std::string(all.empty() ? "" : separator) + std::string(value);
    return all;
  }
};

} // namespace troupe::http

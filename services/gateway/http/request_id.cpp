#include "services/gateway/http/request_id.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

namespace troupe::http {

std::string draw_request_id() {
  thread_local std::mt19937_64 source{[] {
    std::random_device seed;
    return std::uint64_t{seed()} << 32 | seed();
  }()};
  constexpr char digits[] = "0123456789abcdef";
  std::string id;
  for (int half = 0; half < 2; ++half)
    for (std::uint64_t bits = source(), i = 0; i < 16; ++i, bits >>= 4)
      id += digits[bits & 15];
  return id;
}

bool is_sane_request_id(std::string_view id) {
  const auto sane = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_'
           || c == ':' || c == '-';
  };
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), sane);
}

bool is_valid_traceparent(std::string_view text) {
  constexpr std::size_t length = 55; // 2 + 1 + 32 + 1 + 16 + 1 + 2
  if (text.size() < length || text.size() > 128)
    return false;
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  for (std::size_t i = 0; i < length; ++i)
    if (i == 2 || i == 35 || i == 52 ? text[i] != '-' : !is_hex(text[i]))
      return false;
  const auto is_zero = [](std::string_view id) {
    return id.find_first_not_of('0') == std::string_view::npos;
  };
  if (text.starts_with("ff") || is_zero(text.substr(3, 32)) || is_zero(text.substr(36, 16)))
    return false;
  const std::string_view rest = text.substr(length);
  if (text.starts_with("00"))
    return rest.empty();
  // Later versions may append more, after a dash.
  return rest.empty() || (rest.front() == '-' && std::all_of(rest.begin(), rest.end(), [&](char c) {
                            return c == '-' || is_hex(c);
                          }));
}

} // namespace troupe::http

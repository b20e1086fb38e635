#include "services/gateway/http/request_id.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

namespace troupe::http {

std::string draw_request_id() {
  thread_local std::mt19937_64 source{[] {
    std::random_device seed;
    return uint64_t{seed()} << 32 | seed();
  }()};
  constexpr char digits[] = "0123456789abcdef";
  std::string id;
  for (int half = 0; half < 2; ++half)
    for (uint64_t bits = source(), i = 0; i < 16; ++i, bits >>= 4)
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

bool percent_decode(std::string_view encoded, std::string& decoded) {
  const auto value_of = [](char c) {
    if (c >= '0' && c <= '9')
      return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  decoded.clear();
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      decoded += encoded[i];
      continue;
    }
    if (i + 2 >= encoded.size())
      return false;
    const int high = value_of(encoded[i + 1]);
    const int low = value_of(encoded[i + 2]);
    if (high < 0 || low < 0)
      return false;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

} // namespace troupe::http

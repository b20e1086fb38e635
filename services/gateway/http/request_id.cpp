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

} // namespace troupe::http

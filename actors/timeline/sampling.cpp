#include "actors/timeline/sampling.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "actors/timeline/event.hpp"

namespace troupe::timeline {

namespace {

/// Up to 16 hexadecimal digits.
std::optional<std::uint64_t> hex_of(std::string_view text) {
  std::uint64_t result = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'a' && c <= 'f'))
      return std::nullopt;
    result = result << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return result;
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t result = 0xcbf29ce484222325ULL;
  for (const char c : text)
    result = (result ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return result;
}

/// Reads 32 digits; false for anything else, and for zeros, which are no trace id.
bool read_trace_id(std::string_view text, trace_identity& to) {
  const auto high = hex_of(text.substr(0, 16));
  const auto low = hex_of(text.substr(16, 16));
  if (!high || !low || (*high == 0 && *low == 0))
    return false;
  to.trace_high = *high;
  to.trace_low = *low;
  return true;
}

} // namespace

std::uint64_t trace_identity::key() const {
  const auto key = mixed(trace_high ^ mixed(trace_low));
  return key == 0 ? 1 : key;
}

trace_identity identity_of(const request_context& request) {
  trace_identity result;
  // 00-<32 digits>-<16 digits>-<2 digits>, as checked by the gateway.
  const std::string_view parent = request.traceparent;
  if (parent.size() >= 55 && read_trace_id(parent.substr(3, 32), result)) {
    result.parent_span = hex_of(parent.substr(36, 16)).value_or(0);
    result.wants_tracing = (hex_of(parent.substr(53, 2)).value_or(0) & 1U) != 0;
    return result;
  }
  if (request.id.size() == 32 && read_trace_id(request.id, result))
    return result;
  result.trace_high = mixed(hash_of(request.id));
  result.trace_low = mixed(result.trace_high + 1);
  return result;
}

std::uint64_t limit_of(double share) {
  if (!(share > 0))
    return 0;
  constexpr double all = 18446744073709551616.0; // 2^64
  const double limit = std::min(share, 1.0) * all;
  return limit >= all ? UINT64_MAX : static_cast<std::uint64_t>(limit);
}

bool is_sampled(const trace_identity& request, std::uint64_t limit) {
  return limit > 0 && (request.wants_tracing || request.key() <= limit);
}

} // namespace troupe::timeline

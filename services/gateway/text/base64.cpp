#include "services/gateway/text/base64.hpp"

#include "services/gateway/text/text_error.hpp"

#include <cstdint>

namespace troupe::text {

std::string decode_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('='))
    text.remove_suffix(1);
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0)
      throw text_error("not valid base64");
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
    }
  }
  return out;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = (bits << 8U) | static_cast<std::uint8_t>(c);
    for (count += 8; count >= 6; count -= 6)
      out += alphabet[(bits >> (count - 6)) & 63U];
  }
  if (count > 0)
    out += alphabet[(bits << (6 - count)) & 63U];
  out.resize((out.size() + 3) / 4 * 4, '=');
  return out;
}

} // namespace troupe::text

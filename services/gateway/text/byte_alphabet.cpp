#include "services/gateway/text/byte_alphabet.hpp"

#include "services/gateway/text/unicode.hpp"

#include <array>
#include <cstddef>

namespace troupe::text {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct alphabet {
  std::array<std::string, 256> of_byte;
  // The highest character is U+0143: 0x100 plus the 68 unprintable bytes.
  std::array<std::int16_t, 0x144> to_byte{};

  alphabet() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t character = stands_for_itself(byte) ? byte : next++;
      append_utf8(of_byte[byte], character);
      to_byte[character] = static_cast<std::int16_t>(byte);
    }
  }
};

const alphabet& table() {
  static const alphabet instance;
  return instance;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9')
    return c - '0';
  const int lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

} // namespace

void append_byte_level(std::string& out, std::string_view bytes) {
  const auto& characters = table().of_byte;
  for (const char c : bytes)
    out += characters[static_cast<std::uint8_t>(c)];
}

std::optional<std::uint8_t> byte_of_character(char32_t character) noexcept {
  const auto& bytes = table().to_byte;
  if (character >= bytes.size() || bytes[character] < 0)
    return std::nullopt;
  return static_cast<std::uint8_t>(bytes[character]);
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    const auto byte = byte_of_character(c.value);
    if (!byte)
      return std::nullopt;
    out += static_cast<char>(*byte);
    at += c.size;
  }
  return out;
}

std::optional<std::uint8_t> byte_of_fallback_token(std::string_view token) noexcept {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>')
    return std::nullopt;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  if (high < 0 || low < 0)
    return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

} // namespace troupe::text

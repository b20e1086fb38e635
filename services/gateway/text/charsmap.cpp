#include "services/gateway/text/charsmap.hpp"

#include "services/gateway/text/base64.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/unicode.hpp"

namespace troupe::text {

namespace {

// A unit of a Darts-clone double array: label in the low byte and the sign bit, bit 8 "has a value", the
// offset to the children above bit 10, scaled by 256 if bit 9 is set.
constexpr std::uint32_t label_of(std::uint32_t unit) noexcept {
  return unit & 0x800000FFU;
}

constexpr bool has_value(std::uint32_t unit) noexcept {
  return ((unit >> 8U) & 1U) != 0;
}

constexpr std::uint32_t offset_of(std::uint32_t unit) noexcept {
  return (unit >> 10U) << ((unit & 0x200U) >> 6U);
}

constexpr std::uint32_t value_of(std::uint32_t unit) noexcept {
  return unit & 0x7FFFFFFFU;
}

std::uint32_t little_endian(std::string_view bytes, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[at + i]));
  };
  return byte(0) | (byte(1) << 8U) | (byte(2) << 16U) | (byte(3) << 24U);
}

} // namespace

charsmap::charsmap(std::string_view base64) {
  const std::string bytes = decode_base64(base64);
  const std::size_t trie_bytes = bytes.size() < 4 ? 0 : little_endian(bytes, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4)
    throw text_error("the character map is truncated");
  units_.reserve(trie_bytes / 4);
  for (std::size_t at = 4; at < 4 + trie_bytes; at += 4)
    units_.push_back(little_endian(bytes, at));
  replacements_ = bytes.substr(4 + trie_bytes);
  const auto scan = scan_utf8(replacements_);
  if (scan.valid != replacements_.size())
    throw text_error("the character map's replacements are not valid UTF-8");
}

std::optional<std::string_view> charsmap::find(std::string_view text) const noexcept {
  std::uint32_t at = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte)
      return std::nullopt;
    const auto unit = units_[at];
    at ^= offset_of(unit);
    if (at >= units_.size())
      return std::nullopt;
    if (has_value(unit)) {
      const auto begin = static_cast<std::size_t>(value_of(units_[at]));
      // An untrusted map may point anywhere; only whole characters are returned.
      if (begin >= replacements_.size() || (static_cast<std::uint8_t>(replacements_[begin]) & 0xC0U) == 0x80U)
        return std::nullopt;
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
  }
  return std::nullopt;
}

} // namespace troupe::text

// Conversion between bytes and the tokens that stand for them: GPT-2's byte alphabet, byte-fallback tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// Appends `bytes` in GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others become
/// U+0100 and up.
void append_byte_level(std::string& out, std::string_view bytes);

/// The byte for a character of that alphabet.
std::optional<std::uint8_t> byte_of_character(char32_t character) noexcept;

/// The bytes for a `text` in that alphabet; empty when a character is outside of it.
std::optional<std::string> from_byte_level(std::string_view text);

/// The byte for a byte-fallback token such as `<0x0A>`.
std::optional<std::uint8_t> byte_of_fallback_token(std::string_view token) noexcept;

} // namespace troupe::text

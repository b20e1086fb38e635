#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// The printable characters that byte-level tokenizers write for bytes (GPT-2's table): printable Latin-1
/// bytes stand for themselves, the others for U+0100 and up.
void append_byte_level(std::string& out, std::string_view bytes);

/// The byte a character of that alphabet stands for.
std::optional<std::uint8_t> byte_of_character(char32_t character) noexcept;

/// The bytes that @p text, all of it in that alphabet, stands for; nothing when a character is outside of it.
std::optional<std::string> from_byte_level(std::string_view text);

/// The byte that a byte-fallback token such as `<0x0A>` stands for.
std::optional<std::uint8_t> byte_of_fallback_token(std::string_view token) noexcept;

} // namespace troupe::text

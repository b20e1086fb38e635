// UTF-8 decoding, properties of characters, and Unicode normalization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::text {

inline constexpr char32_t replacement_character = 0xFFFD;

/// One code point of valid UTF-8, and its size in bytes.
struct code_point {
  char32_t value;
  std::size_t size;
};

/// The code point at `at`. `text` must be valid UTF-8, and `at` the start of a character.
code_point decode_at(std::string_view text, std::size_t at) noexcept;

/// Bytes of the UTF-8 character that starts with `lead`.
std::size_t utf8_size(char lead) noexcept;

void append_utf8(std::string& out, char32_t value);

/// How much of a byte sequence is well-formed.
struct utf8_scan {
  std::size_t valid; ///< leading bytes that are whole characters
  std::size_t
      malformed;   ///< bytes after them that can never become one (a maximal malformed part); 0 at the end
  bool unfinished; ///< the rest may still become one character
};

/// Follows Unicode's "maximal subpart" practice, like WHATWG and Rust.
utf8_scan scan_utf8(std::string_view bytes) noexcept;

/// `bytes` with every maximal malformed part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

/// White_Space property.
bool is_whitespace(char32_t value) noexcept;
/// General categories Nd, Nl, No.
bool is_numeric(char32_t value) noexcept;
/// ASCII punctuation and general categories P*.
bool is_punctuation(char32_t value) noexcept;
/// General categories M*.
bool is_combining_mark(char32_t value) noexcept;
/// \w of Rust's regex: Alphabetic, M*, Nd, Pc and the joiners.
bool is_word(char32_t value) noexcept;

/// Appends the full lower case mapping, without context.
void append_lowercase(std::string& out, char32_t value);

enum class normal_form { nfc, nfd, nfkc, nfkd };

/// `text` must be valid UTF-8.
std::string normalize(std::string_view text, normal_form form);

/// How many bytes of normalize(`text`) come from the first `size` bytes of `text` (whole characters), by
/// Hugging Face's alignments: a composed character comes from its first part.
std::size_t normalized_size(std::string_view text, std::size_t size, normal_form form);

/// Bytes of the extended grapheme cluster that starts at `at`.
std::size_t grapheme_size(std::string_view text, std::size_t at) noexcept;

} // namespace troupe::text

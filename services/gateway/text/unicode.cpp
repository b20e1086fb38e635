#include "services/gateway/text/unicode.hpp"

#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace troupe::text {

namespace {

constexpr std::uint8_t byte_of(char c) noexcept {
  return static_cast<std::uint8_t>(c);
}

utf8proc_category_t category_of(char32_t value) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

bool is_mark(utf8proc_category_t c) noexcept {
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool is_letter(utf8proc_category_t c) noexcept {
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT
         || c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

// Other_Alphabetic characters that are symbols: circled, squared and negative letters.
bool is_alphabetic_symbol(char32_t value) noexcept {
  return (value >= 0x24B6 && value <= 0x24E9) || (value >= 0x1F130 && value <= 0x1F149)
         || (value >= 0x1F150 && value <= 0x1F169) || (value >= 0x1F170 && value <= 0x1F189);
}

/// Valid range of the second byte for a first byte (Unicode, table 3-7).
struct second_byte {
  std::uint8_t low;
  std::uint8_t high;
};

second_byte second_byte_range(std::uint8_t lead) noexcept {
  switch (lead) {
  case 0xE0:
    return {0xA0, 0xBF};
  case 0xED:
    return {0x80, 0x9F};
  case 0xF0:
    return {0x90, 0xBF};
  case 0xF4:
    return {0x80, 0x8F};
  default:
    return {0x80, 0xBF};
  }
}

} // namespace

std::size_t utf8_size(char lead) noexcept {
  const auto b = byte_of(lead);
  if (b < 0x80)
    return 1;
  return b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

code_point decode_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(byte_of(text[at + i])); };
  const auto low6 = [&](std::size_t i) { return byte(i) & 0x3FU; };
  switch (utf8_size(text[at])) {
  case 1:
    return {byte(0), 1};
  case 2:
    return {((byte(0) & 0x1FU) << 6U) | low6(1), 2};
  case 3:
    return {((byte(0) & 0x0FU) << 12U) | (low6(1) << 6U) | low6(2), 3};
  default:
    return {((byte(0) & 0x07U) << 18U) | (low6(1) << 12U) | (low6(2) << 6U) | low6(3), 4};
  }
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<std::uint8_t>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0U | (value >> 6U));
    put(0x80U | (value & 0x3FU));
  } else if (value < 0x10000) {
    put(0xE0U | (value >> 12U));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  } else {
    put(0xF0U | (value >> 18U));
    put(0x80U | ((value >> 12U) & 0x3FU));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  }
}

utf8_scan scan_utf8(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto lead = byte_of(bytes[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4)
      return {at, 1, false};
    const auto size = utf8_size(bytes[at]);
    std::size_t seen = 1;
    for (auto range = second_byte_range(lead); seen < size; ++seen, range = {0x80, 0xBF}) {
      if (at + seen == bytes.size())
        return {at, 0, true};
      const auto next = byte_of(bytes[at + seen]);
      if (next < range.low || next > range.high)
        return {at, seen, false};
    }
    at += size;
  }
  return {at, 0, false};
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto scan = scan_utf8(bytes);
    out += bytes.substr(0, scan.valid);
    bytes.remove_prefix(scan.valid);
    if (scan.unfinished) {
      append_utf8(out, replacement_character);
      break;
    }
    if (scan.malformed > 0) {
      append_utf8(out, replacement_character);
      bytes.remove_prefix(scan.malformed);
    }
  }
  return out;
}

bool is_whitespace(char32_t value) noexcept {
  return (value >= 0x09 && value <= 0x0D) || value == 0x20 || value == 0x85 || value == 0xA0
         || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029
         || value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_numeric(char32_t value) noexcept {
  const auto c = category_of(value);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t value) noexcept {
  if (value < 0x80) {
    return (value >= 0x21 && value <= 0x2F) || (value >= 0x3A && value <= 0x40)
           || (value >= 0x5B && value <= 0x60) || (value >= 0x7B && value <= 0x7E);
  }
  const auto c = category_of(value);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_combining_mark(char32_t value) noexcept {
  return is_mark(category_of(value));
}

bool is_word(char32_t value) noexcept {
  const auto c = category_of(value);
  return is_letter(c) || is_mark(c) || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_ND
         || c == UTF8PROC_CATEGORY_PC || is_alphabetic_symbol(value) || value == 0x200C || value == 0x200D;
}

void append_lowercase(std::string& out, char32_t value) {
  constexpr char32_t capital_i_with_dot = 0x130;
  if (value == capital_i_with_dot) { // the only character whose full mapping has two: i and a combining dot
    out += "i\xCC\x87";
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
}

namespace {

int combining_class(char32_t value) noexcept {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(value))->combining_class;
}

/// Does what utf8proc_map does, but sorts marks in less than quadratic time: there may be millions in a row.
std::vector<utf8proc_int32_t> normalized(std::string_view text, utf8proc_option_t options) {
  std::array<utf8proc_int32_t, 32> parts{}; // the longest decomposition has 18
  const auto check = [](utf8proc_ssize_t size) {
    if (size < 0)
      throw text_error(std::string("Unicode normalization failed: ") + utf8proc_errmsg(size));
    return static_cast<std::size_t>(size);
  };
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  limited_steps steps(1024);
  int boundary = 0; // of graphemes; unused
  for (std::size_t at = 0; at < text.size();) {
    steps.step();
    const auto c = decode_at(text, at);
    const auto size = check(utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts.data(),
                                                    parts.size(), options, &boundary));
    out.insert(out.end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(size));
    at += c.size;
  }
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(static_cast<char32_t>(c)) == 0; };
  for (auto begin = std::find_if_not(out.begin(), out.end(), is_starter); begin != out.end();) {
    const auto end = std::find_if(begin, out.end(), is_starter);
    if (end - begin > 1) {
      std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(static_cast<char32_t>(a)) < combining_class(static_cast<char32_t>(b));
      });
    }
    begin = std::find_if_not(end, out.end(), is_starter);
  }
  out.resize(check(utf8proc_normalize_utf32(out.data(), static_cast<utf8proc_ssize_t>(out.size()), options)));
  return out;
}

std::string encode_utf32(const std::vector<utf8proc_int32_t>& characters) {
  std::string out;
  out.reserve(characters.size());
  for (const auto c : characters)
    append_utf8(out, static_cast<char32_t>(c));
  return out;
}

} // namespace

std::string normalize(std::string_view text, normal_form form) {
  unsigned options = UTF8PROC_STABLE;
  switch (form) {
  case normal_form::nfc:
    options |= UTF8PROC_COMPOSE;
    break;
  case normal_form::nfd:
    options |= UTF8PROC_DECOMPOSE;
    break;
  case normal_form::nfkc:
    options |= static_cast<unsigned>(UTF8PROC_COMPOSE) | static_cast<unsigned>(UTF8PROC_COMPAT);
    break;
  case normal_form::nfkd:
    options |= static_cast<unsigned>(UTF8PROC_DECOMPOSE) | static_cast<unsigned>(UTF8PROC_COMPAT);
    break;
  }
  return encode_utf32(normalized(text, static_cast<utf8proc_option_t>(options)));
}

namespace {

/// A character during normalization.
struct normal_character {
  char32_t value;
  int combining_class;
  /// Characters of the text that it replaces; 0: it belongs to the previous one's replacement.
  std::size_t taken;
};

std::vector<normal_character> decompose(std::string_view text, bool compatibly) {
  std::vector<normal_character> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    const auto parts = normalize(text.substr(at, c.size), compatibly ? normal_form::nfkd : normal_form::nfd);
    for (std::size_t i = 0; i < parts.size();) {
      const auto part = decode_at(parts, i);
      out.push_back({part.value, combining_class(part.value), i == 0 ? 1U : 0U});
      i += part.size;
    }
    at += c.size;
  }
  // Canonical order: marks sorted by class, between characters of class 0.
  const auto is_starter = [](const normal_character& c) { return c.combining_class == 0; };
  for (auto begin = out.begin(); begin != out.end();) {
    const auto end = std::find_if(begin, out.end(), is_starter);
    std::stable_sort(begin, end, [](const normal_character& a, const normal_character& b) {
      return a.combining_class < b.combining_class;
    });
    begin = std::find_if_not(end, out.end(), is_starter);
  }
  return out;
}

/// The composition of two characters; empty when they do not compose.
std::optional<char32_t> composed(char32_t first, char32_t second) {
  std::string pair;
  append_utf8(pair, first);
  append_utf8(pair, second);
  const auto joined = normalize(pair, normal_form::nfc);
  const auto c = decode_at(joined, 0);
  return c.size == joined.size() ? std::optional(c.value) : std::nullopt;
}

std::vector<normal_character> compose(const std::vector<normal_character>& decomposed) {
  std::vector<normal_character> out;
  std::optional<std::size_t> starter;
  for (const auto& c : decomposed) {
    if (starter) {
      const bool blocked = out.size() - 1 != *starter && out.back().combining_class >= c.combining_class;
      if (const auto joined = blocked ? std::nullopt : composed(out[*starter].value, c.value)) {
        out[*starter].value = *joined;
        out[*starter].taken += c.taken;
        continue;
      }
    }
    out.push_back(c);
    if (c.combining_class == 0)
      starter = out.size() - 1;
  }
  return out;
}

/// End of the characters that may compose with those of the first `size` bytes, or trade places with them. At
/// most three characters of class 0 compose (Hangul), and marks stay between two such. A run of marks longer
/// than in any language is cut off.
std::size_t end_of_influence(std::string_view text, std::size_t size) {
  constexpr int enough = 4;
  constexpr std::size_t longest = 256;
  std::size_t end = size;
  for (int starters = 0; end < text.size() && end - size < longest;) {
    const auto c = decode_at(text, end);
    if (combining_class(c.value) == 0 && ++starters > enough)
      break;
    end += c.size;
  }
  return end;
}

} // namespace

std::size_t normalized_size(std::string_view text, std::size_t size, normal_form form) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < size; at += utf8_size(text[at]))
    ++characters;
  const bool compatibly = form == normal_form::nfkc || form == normal_form::nfkd;
  auto normal = decompose(text.substr(0, end_of_influence(text, size)), compatibly);
  if (form == normal_form::nfc || form == normal_form::nfkc)
    normal = compose(normal);
  std::string out;
  std::size_t taken = 0;
  for (const auto& c : normal) {
    if (c.taken > 0 ? taken >= characters : taken > characters)
      break;
    taken += c.taken;
    append_utf8(out, c.value);
  }
  return out.size();
}

std::size_t grapheme_size(std::string_view text, std::size_t at) noexcept {
  utf8proc_int32_t state = 0;
  auto previous = decode_at(text, at);
  std::size_t end = at + previous.size;
  while (end < text.size()) {
    const auto next = decode_at(text, end);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      break;
    end += next.size;
    previous = next;
  }
  return end - at;
}

} // namespace troupe::text

#pragma once

#include <string>
#include <string_view>

namespace troupe::text {

// Sets of characters as the items of a PCRE2 class (what stands between its brackets), as Oniguruma has them.

/// White_Space; PCRE2's own \s adds U+180E.
extern const std::string_view space_items;
extern const std::string_view non_space_items;
/// Alphabetic, marks, decimal digits and connectors; PCRE2's own \w lacks the marks.
std::string word_items();
/// Characters with a property (`L`, `Nd`, `Han`), those of newer Unicode versions than PCRE2's included.
std::string property_items(std::string_view name);

/// A class of every character.
extern const std::string_view any_character;

/// `\x{…}` for one character.
std::string hex_escape(char32_t value);

} // namespace troupe::text

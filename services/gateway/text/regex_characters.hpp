// Oniguruma's sets of characters, as items of a PCRE2 class (the text between its brackets).
#pragma once

#include <string>
#include <string_view>

namespace troupe::text {

/// White_Space; PCRE2's \s adds U+180E.
extern const std::string_view space_items;
extern const std::string_view non_space_items;
/// Alphabetic, marks, decimal digits and connectors; PCRE2's \w lacks the marks.
std::string word_items();
/// Characters with a property (`L`, `Nd`, `Han`), including those newer than PCRE2's Unicode version.
std::string property_items(std::string_view name);

/// A class that contains every character.
extern const std::string_view any_character;

/// `\x{…}` of one character.
std::string hex_escape(char32_t value);

} // namespace troupe::text

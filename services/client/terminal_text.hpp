// Text from elsewhere (names of workers, reasons of servers) on a terminal: nothing in it moves the cursor,
// and it is cut between characters. A code point counts as one column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// The same text with a '?' for each control character, each mark that changes the direction of writing, and
/// each byte that is not UTF-8.
std::string printable(std::string_view text);

/// Columns that a text takes: its code points; a byte that is not UTF-8 counts as one.
size_t columns_of(std::string_view text);

/// What fits into so many columns from its beginning.
std::string_view first_columns(std::string_view text, size_t columns);

/// Both: what fits into so many columns, printable.
std::string excerpt(std::string_view text, size_t columns);

/// "1 host", "2 hosts".
std::string counted(size_t number, const std::string& thing);

} // namespace troupe

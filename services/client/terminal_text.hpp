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
std::size_t columns_of(std::string_view text);

/// The longest beginning of the text that fits into N columns.
std::string_view first_columns(std::string_view text, std::size_t columns);

/// The longest beginning that fits into N columns, printable.
std::string excerpt(std::string_view text, std::size_t columns);

/// "1 host", "2 hosts".
std::string counted(std::size_t number, const std::string& thing);

} // namespace troupe

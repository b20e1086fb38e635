// Rows of cells as lines of text, for people.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Texts begin at the left of their column, numbers end at its right.
enum class column_kind { text, number };

/// Lines in which each column is as wide as its widest cell, two spaces apart, without spaces at the end.
/// Cells are made printable. A column whose cells are all empty is left out.
/// @param columns  one for each cell of a row
/// @param rows  the headings are the first of them
std::vector<std::string> table_lines(const std::vector<column_kind>& columns,
                                     const std::vector<std::vector<std::string>>& rows);

/// The same lines as one text, each with its end.
std::string table_text(const std::vector<column_kind>& columns,
                       const std::vector<std::vector<std::string>>& rows);

} // namespace troupe

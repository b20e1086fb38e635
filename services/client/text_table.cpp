#include "services/client/text_table.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "services/client/terminal_text.hpp"

namespace troupe {

std::vector<std::string> table_lines(const std::vector<column_kind>& columns,
                                     const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(columns.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < columns.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row.at(i)));
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    const char* gap = "";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (widths[i] == 0)
        continue;
      const std::string cell = printable(row[i]); // takes as many columns
      const std::string space(widths[i] - columns_of(cell), ' ');
      line += gap + (columns[i] == column_kind::number ? space + cell : cell + space);
      gap = "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string table_text(const std::vector<column_kind>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const std::string& line : table_lines(columns, rows))
    text += line + "\n";
  return text;
}

} // namespace troupe

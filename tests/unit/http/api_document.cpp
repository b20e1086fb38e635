#include "tests/unit/http/api_document.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace troupe::http_test {

namespace {

constexpr const char* document = "docs/api.md";
constexpr std::string_view mark = "<!-- table: ";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

/// "| `a` | b |" has the cells "`a`" and "b".
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');)
    cells.push_back(trimmed(cell));
  return cells;
}

document_table head_of(const std::string& line) {
  std::istringstream words(line.substr(mark.size()));
  document_table table;
  words >> table.kind;
  for (std::string word; words >> word && word != "-->";)
    table.subjects.push_back(word);
  return table;
}

} // namespace

bool document_table::is_of(const std::string& subject) const {
  return std::find(subjects.begin(), subjects.end(), subject) != subjects.end();
}

std::string read_source(const std::string& path) {
  std::ifstream in(TROUPE_SOURCE_DIR + std::string("/") + path);
  if (!in)
    throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<document_table> read_api_tables() {
  std::istringstream in(read_source(document));
  std::vector<document_table> tables;
  bool is_in_table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(mark)) {
      tables.push_back(head_of(line));
      is_in_table = true;
    } else if (is_in_table && line.starts_with('|')) {
      tables.back().rows.push_back(cells_of(line));
    } else if (is_in_table && !line.empty()) {
      is_in_table = false;
    } else if (line.empty() && !tables.empty() && !tables.back().rows.empty()) {
      is_in_table = false;
    }
  }
  for (document_table& table : tables) {
    if (table.rows.size() < 3)
      throw std::runtime_error(std::string(document) + ": the table '" + table.kind + "' has no rows");
    table.rows.erase(table.rows.begin(), table.rows.begin() + 2);
  }
  return tables;
}

std::vector<document_table> tables_of(const std::string& kind, const std::string& subject) {
  std::vector<document_table> found;
  for (document_table& table : read_api_tables())
    if (table.kind == kind && (subject.empty() || table.is_of(subject)))
      found.push_back(std::move(table));
  if (found.empty())
    throw std::runtime_error(std::string(document) + " has no table '" + kind + " " + subject + "'");
  return found;
}

std::vector<std::vector<std::string>> rows_of(const std::string& kind, const std::string& subject) {
  std::vector<std::vector<std::string>> rows;
  for (const document_table& table : tables_of(kind, subject))
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  return rows;
}

std::vector<std::string> quoted_in(const std::string& cell) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  while ((begin = cell.find('`', begin)) != std::string::npos) {
    const std::size_t end = cell.find('`', begin + 1);
    if (end == std::string::npos)
      break;
    found.push_back(cell.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return found;
}

std::string name_in(const std::string& cell) {
  const auto found = quoted_in(cell);
  return found.size() == 1 ? found.front() : "";
}

} // namespace troupe::http_test

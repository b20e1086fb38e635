// The tables of docs/api.md that tests compare with the code.
#pragma once

#include <string>
#include <vector>

namespace troupe::http_test {

/// A table after a line `<!-- table: KIND SUBJECT... -->`.
struct document_table {
  std::string kind;                           ///< "request", "answer", …
  std::vector<std::string> subjects;          ///< "completions", …; may be empty
  std::vector<std::vector<std::string>> rows; ///< cells as written, without the heading

  bool is_of(const std::string& subject) const;
};

/// @throws std::runtime_error  the file is missing, or has no such table
std::vector<document_table> read_api_tables();

/// The tables of this kind and, if `subject` is given, of this subject.
/// @throws std::runtime_error  there is none
std::vector<document_table> tables_of(const std::string& kind, const std::string& subject = {});

/// The rows of these tables, concatenated.
/// @throws std::runtime_error  there is none
std::vector<std::vector<std::string>> rows_of(const std::string& kind, const std::string& subject = {});

/// The texts in backticks in a cell, in order.
std::vector<std::string> quoted_in(const std::string& cell);

/// The only one, or an empty text.
std::string name_in(const std::string& cell);

/// The contents of a file of the source tree.
/// @param path  from its root
std::string read_source(const std::string& path);

} // namespace troupe::http_test

// The first line of a state file: its kind and format version.
#pragma once

#include <stdexcept>
#include <string_view>

namespace troupe {

/// The file has a format that only later versions of the program know.
struct later_format : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file begins with "NAME NUMBER" and a line feed. A version reads the formats of the releases that can be
/// upgraded to it. It raises the number if an older version would misread the file. A later number ends the
/// program: treated as a damaged file, it would be ignored and then overwritten.
/// @throws later_format  `content` begins with `name` and a number above `newest`
void refuse_later_format(std::string_view content, std::string_view name, unsigned newest);

} // namespace troupe

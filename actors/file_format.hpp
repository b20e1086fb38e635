// The first line of a file that outlives the program: what it is, and in which format.
#pragma once

#include <stdexcept>
#include <string_view>

namespace troupe {

/// A file in a format that only later versions of the program know.
struct later_format : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file begins with "NAME NUMBER" and a line feed. A version reads the formats of the releases that are
/// upgraded from, and raises the number where an older one would misread what it writes: so a later number is
/// an error that ends the program, instead of a damaged file that it goes on without and then overwrites.
/// @errors throws `later_format` when `content` begins with `name` and a number above `newest`
void refuse_later_format(std::string_view content, std::string_view name, unsigned newest);

} // namespace troupe

// The kind of a flag's value or an argument, by its placeholder.
#pragma once

#include <string>
#include <vector>

namespace troupe::manual {

/// The completions that a shell can offer.
struct value_kind {
  std::vector<std::string> words; ///< of an enumeration
  bool files = false;
  bool folders = false;
};

/// "on|off" are words, "FILE|-|off" files and words, "MODEL_DIR" folders; "N" and "HOST:PORT" have no
/// completions.
value_kind kind_of_value(const std::string& placeholder);

} // namespace troupe::manual

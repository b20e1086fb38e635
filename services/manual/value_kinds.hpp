// What a flag's value or an argument can be, as its placeholder tells.
#pragma once

#include <string>
#include <vector>

namespace troupe::manual {

/// What a shell can offer for it.
struct value_kind {
  std::vector<std::string> words; ///< of an enumeration
  bool files = false;
  bool folders = false;
};

/// "on|off" are words, "FILE|-|off" files and words, "MODEL_DIR" folders; of "N" or "HOST:PORT" nothing is
/// known.
value_kind kind_of_value(const std::string& placeholder);

} // namespace troupe::manual

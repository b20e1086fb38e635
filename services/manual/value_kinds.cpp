#include "services/manual/value_kinds.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::manual {

namespace {

/// Words of an enumeration are in lower case; what stands for a value is in upper case.
bool is_word(const std::string& part) {
  return !part.empty() && std::none_of(part.begin(), part.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

} // namespace

value_kind kind_of_value(const std::string& placeholder) {
  value_kind result;
  std::istringstream parts(placeholder);
  for (std::string part; std::getline(parts, part, '|');) {
    part = part.substr(0, part.find('[')); // "cuda[:N]"
    if (part.ends_with("FILE"))
      result.files = true;
    else if (part.ends_with("DIR"))
      result.folders = true;
    else if (is_word(part))
      result.words.push_back(part);
  }
  return result;
}

} // namespace troupe::manual

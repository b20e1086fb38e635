#include "actors/state/file_format.hpp"

#include <charconv>
#include <string>
#include <system_error>

namespace troupe {

void refuse_later_format(std::string_view content, std::string_view name, unsigned newest) {
  const auto line = content.substr(0, content.find('\n'));
  if (!line.starts_with(name) || line.size() <= name.size() + 1 || line[name.size()] != ' ')
    return;
  unsigned number = 0;
  const auto* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + name.size() + 1, end, number);
  if (error == std::errc{} && rest == end && number > newest)
    throw later_format("it is of a later version of Troupe: its format is " + std::to_string(number)
                       + ", this version reads " + std::to_string(newest)
                       + "; start the later version, or move the file away to begin without it");
}

} // namespace troupe

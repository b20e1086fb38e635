#include "services/top/metrics_text.hpp"

#include <algorithm>
#include <charconv>

namespace troupe::top {

namespace {

/// A family that every gateway has: what stands before it is the prefix.
constexpr std::string_view known_family = "generation_tokens_total";

/// Takes `{name="value",...}` from the front of `rest`; false where it is malformed.
bool take_labels(std::string_view& rest, std::map<std::string, std::string>& labels) {
  rest.remove_prefix(1);
  while (!rest.starts_with('}')) {
    const std::size_t equals = rest.find("=\"");
    if (equals == std::string_view::npos)
      return false;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 2);
    std::string value;
    while (!rest.empty() && rest.front() != '"') {
      if (rest.front() == '\\' && rest.size() > 1) {
        rest.remove_prefix(1);
        value += rest.front() == 'n' ? '\n' : rest.front();
      } else {
        value += rest.front();
      }
      rest.remove_prefix(1);
    }
    if (rest.empty())
      return false;
    rest.remove_prefix(1);
    labels[name] = std::move(value);
    if (rest.starts_with(','))
      rest.remove_prefix(1);
  }
  rest.remove_prefix(1);
  return true;
}

/// "1.5", "+Inf", "NaN", as Prometheus writes numbers.
std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{})
    return std::nullopt;
  return value;
}

std::optional<series> series_of(std::string_view line) {
  series result;
  const std::size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos || end == 0)
    return std::nullopt;
  result.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.front() == '{' && !take_labels(line, result.labels))
    return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto value = number_of(line.substr(0, line.find(' '))); // a time may stand behind it
  if (!value)
    return std::nullopt;
  result.value = *value;
  return result;
}

} // namespace

metrics_text::metrics_text(std::string_view page) {
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size());
    const std::string_view line = page.substr(0, end);
    page.remove_prefix(std::min(end + 1, page.size()));
    if (line.empty() || line.front() == '#')
      continue;
    if (auto one = series_of(line)) {
      if (one->name.ends_with(known_family))
        prefix_ = one->name.substr(0, one->name.size() - known_family.size());
      all_.push_back(std::move(*one));
    }
  }
}

std::vector<const series*> metrics_text::of(std::string_view family) const {
  std::vector<const series*> found;
  for (const series& one : all_)
    if (one.name.size() == prefix_.size() + family.size() && one.name.starts_with(prefix_)
        && one.name.ends_with(family))
      found.push_back(&one);
  return found;
}

std::optional<double> metrics_text::exactly(std::string_view name) const {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [name](const series& one) { return one.name == name; });
  return found == all_.end() ? std::nullopt : std::optional(found->value);
}

std::optional<double> metrics_text::sum(std::string_view family) const {
  const auto found = of(family);
  if (found.empty())
    return std::nullopt;
  double total = 0;
  for (const series* one : found)
    total += one->value;
  return total;
}

} // namespace troupe::top

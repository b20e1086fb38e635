#include "services/metrics/open_metrics.hpp"

#include <algorithm>

namespace troupe::metrics {

namespace {

constexpr std::string_view counter_suffix = "_total";

/// Removes a word and the blank after it from the front.
std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

std::string_view family_name(std::string_view name, bool is_counter) {
  if (is_counter && name.ends_with(counter_suffix))
    name.remove_suffix(counter_suffix.size());
  return name;
}

} // namespace

bool accepts_open_metrics(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos;
}

std::string to_open_metrics(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  std::string help; // of the family whose TYPE follows
  const auto tell = [&](std::string_view what, std::string_view name, std::string_view value) {
    out.append("# ").append(what).append(" ").append(name).append(" ").append(value).append("\n");
  };
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("# HELP ")) {
      help = line.substr(7);
    } else if (line.starts_with("# TYPE ")) {
      line.remove_prefix(7);
      const std::string_view name = take_word(line);
      const bool is_counter = line == "counter";
      tell("TYPE", family_name(name, is_counter), line);
      std::string_view told = help;
      if (take_word(told) == name)
        tell("HELP", family_name(name, is_counter), told);
      help.clear();
    } else if (!line.empty()) {
      out.append(line).append("\n");
    }
  }
  out += "# EOF\n";
  return out;
}

} // namespace troupe::metrics

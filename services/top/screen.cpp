#include "services/top/screen.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"

namespace troupe::top {

namespace {

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string rate_text(const std::optional<double>& per_second) {
  return per_second ? fixed(*per_second, 1) : "-";
}

std::string count_text(const std::optional<std::uint64_t>& count) {
  return count ? std::to_string(*count) : "-";
}

std::string percent(double share) {
  return fixed(100 * share, 0) + "%";
}

std::string latency_text(const latency& of) {
  return "p50 " + duration_text(of.p50) + ", p99 " + duration_text(of.p99);
}

/// "[#####-----]"
std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '-') + "]";
}

std::string kv_text(const overview& of) {
  if (!of.kv_used || of.kv_capacity.value_or(0) == 0)
    return "-";
  const double share = static_cast<double>(*of.kv_used) / static_cast<double>(*of.kv_capacity);
  return bar(share, 20) + " " + percent(share) + ", " + std::to_string(*of.kv_used) + " of "
         + std::to_string(*of.kv_capacity) + " tokens"
         + (of.prefix_hits ? "; prefix hits " + percent(*of.prefix_hits) : "");
}

std::string hottest_text(const overview& of, std::size_t columns) {
  if (of.hottest.empty())
    return "-";
  std::string text;
  for (const hot_expert& one : of.hottest) {
    std::string entry = "L" + std::to_string(one.layer) + "/E" + std::to_string(one.expert) + " "
                        + fixed(one.times_even, 1) + "x";
    for (std::size_t i = 0; i < one.hosts.size(); ++i)
      entry += (i == 0 ? " on " : "+") + one.hosts[i];
    const std::string longer = text + (text.empty() ? "" : ", ") + entry;
    if (columns != 0 && !text.empty() && columns_of(longer) > columns)
      break;
    text = longer;
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr double mebi = 1024 * 1024;
  return bytes < 1024 * mebi ? fixed(bytes / mebi, 0) + " MiB" : fixed(bytes / mebi / 1024, 1) + " GiB";
}

std::string title(const heading& about) {
  std::string text = "troupe top - " + about.url;
  if (about.interval.count() > 0)
    text += " - figures of " + fixed(about.interval.count(), 1) + " s";
  return text;
}

/// As the headings in worker_table: role, name, state and memory are texts.
const std::vector<column_kind> columns{column_kind::text,   column_kind::text,   column_kind::text,
                                       column_kind::number, column_kind::number, column_kind::number,
                                       column_kind::number, column_kind::number, column_kind::text};
using row = std::vector<std::string>;

std::vector<std::string> worker_table(const std::vector<worker_line>& workers) {
  const bool with_processes = std::any_of(
      workers.begin(), workers.end(), [](const worker_line& one) { return one.resident_bytes.has_value(); });
  std::vector<row> rows{{"ROLE", "WORKER", "STATE", "RUNNING", "WAITING", "LOAD",
                         with_processes ? "CPUS" : "", with_processes ? "RESIDENT" : "", "MEMORY"}};
  for (const worker_line& one : workers) {
    row cells{one.role,
              one.name,
              one.state,
              one.running,
              count_text(one.waiting),
              one.load ? percent(*one.load) : "-",
              "",
              "",
              one.memory};
    if (with_processes) {
      cells[6] = one.processors ? fixed(*one.processors, 2) : "-";
      cells[7] = one.resident_bytes ? bytes_text(*one.resident_bytes) : "-";
    }
    rows.push_back(std::move(cells));
  }
  return table_lines(columns, rows);
}

/// Text that came from elsewhere is in any of the lines.
void cut(std::vector<std::string>& lines, screen_size size) {
  if (size.rows != 0 && lines.size() > size.rows)
    lines.resize(size.rows);
  for (std::string& line : lines)
    line = size.columns == 0 ? printable(line) : excerpt(line, size.columns);
}

} // namespace

std::string duration_text(const std::optional<double>& seconds) {
  if (!seconds)
    return "-";
  if (*seconds < 0.001)
    return fixed(*seconds * 1e6, 0) + " us";
  return *seconds < 1 ? fixed(*seconds * 1e3, 1) + " ms" : fixed(*seconds, 2) + " s";
}

std::vector<std::string> screen_lines(const heading& about, screen_size size) {
  std::vector<std::string> lines{title(about),
                                 about.trouble.empty() ? "waiting for the first figures" : about.trouble};
  cut(lines, size);
  return lines;
}

std::vector<std::string> screen_lines(const heading& about, const overview& figures, screen_size size) {
  std::vector<std::string> lines{title(about)};
  if (!about.trouble.empty())
    lines.push_back(about.trouble + "; what follows is older");
  constexpr std::size_t label_width = 12;
  const auto add = [&lines](std::string label, const std::string& text) {
    label.resize(label_width, ' ');
    lines.push_back(label + text);
  };
  add("cluster", (figures.is_ready ? "ready, " : "NOT READY, ") + figures.scheduler);
  add("requests", count_text(figures.running) + " running, " + count_text(figures.waiting) + " waiting, "
                      + rate_text(figures.ended_per_second) + " choices ended/s, "
                      + rate_text(figures.refused_per_second) + " refused/s");
  add("tokens/s", rate_text(figures.prompt_tokens_per_second) + " prompt, "
                      + rate_text(figures.new_tokens_per_second) + " new");
  add("first token", latency_text(figures.first_token));
  add("between", latency_text(figures.between_tokens));
  add("KV cache", kv_text(figures));
  add("placement",
      "imbalance " + (figures.imbalance ? fixed(*figures.imbalance, 2) : "-") + ", " + figures.planner);
  add("hottest",
      hottest_text(figures, size.columns == 0 ? 0 : size.columns - std::min(size.columns, label_width)));
  for (const std::string& what : figures.not_read)
    add("not read", what);
  lines.emplace_back();
  auto table = worker_table(figures.workers);
  const std::size_t room = size.rows > lines.size() ? size.rows - lines.size() : 0;
  if (size.rows != 0 && table.size() > room && room > 1) {
    const std::size_t left_out = table.size() - (room - 1);
    table.resize(room - 1);
    table.push_back("and " + std::to_string(left_out) + " more; 'troupe status' shows all");
  }
  lines.insert(lines.end(), table.begin(), table.end());
  cut(lines, size);
  return lines;
}

} // namespace troupe::top

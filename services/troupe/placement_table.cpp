#include "services/troupe/placement_table.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"
#include "services/pages/placement_page.hpp"

namespace troupe {

namespace {

/// Experts of a change that are listed; a plan for a large model has thousands.
constexpr std::size_t max_listed = 40;

pages::placement_page page_of(const std::string& text) {
  return pages::decode<pages::placement_page>(text, "the answer is not about the placement");
}

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  return fixed(value, unit == 0 ? 0 : 1) + " " + units[unit];
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "none" : text;
}

std::string progress_text(const std::optional<pages::progress_part>& change) {
  if (!change)
    return "none";
  return std::to_string(change->id) + " (" + printable(change->reason)
         + "): " + counted(change->moves_done, "expert") + " done, " + std::to_string(change->moves_left)
         + " left, " + std::to_string(change->moves_given_up) + " given up, "
         + fixed(static_cast<double>(change->elapsed_ms) / 1000, 1) + " s";
}

/// Workers that the moves in flight give an expert that they did not have, without repetition.
std::vector<std::string> loading_workers(const std::optional<pages::progress_part>& change) {
  std::vector<std::string> names;
  if (!change || !change->in_flight)
    return names;
  for (const auto& moved : *change->in_flight)
    for (const auto& name : moved.to) {
      const auto is_in = [&name](const auto& list) {
        return std::find(list.begin(), list.end(), name) != list.end();
      };
      if (!is_in(moved.from) && !is_in(names))
        names.push_back(name);
    }
  return names;
}

std::string prediction_text(const pages::step_part& before, const pages::step_part& after) {
  const auto step = [&](double pages::step_part::*figure, int decimals) {
    return fixed(before.*figure, decimals) + " -> " + fixed(after.*figure, decimals);
  };
  using part = pages::step_part;
  return "predicted for a step: " + step(&part::step_us, 1) + " us, of which the busiest workers "
         + step(&part::busiest_us, 1) + " us; " + step(&part::messages, 1)
         + " messages; share of a layer's busiest worker " + step(&part::max_share, 3) + "\n";
}

} // namespace

std::string placement_table(const std::string& text) {
  const auto page = page_of(text);
  std::string result = "planner: " + printable(page.planner) + "\n";
  result += "change under way: " + progress_text(page.change) + "\n";
  if (const auto loading = loading_workers(page.change); !loading.empty())
    result += "loading: " + joined(loading) + "\n";
  result += "last change: " + progress_text(page.last) + "\n";
  result += "imbalance: " + (page.imbalance ? fixed(*page.imbalance, 2) : "not known yet")
            + " (time of the busiest workers over that of an even load)\n";
  result += "expert workers wanted: "
            + (page.wanted_workers ? std::to_string(*page.wanted_workers) : "not known yet") + "\n";
  result += "drained: " + joined(page.drained) + "\n";
  std::vector<std::vector<std::string>> rows{{"LAYER", "EXPERT", "ORDER"}};
  for (const auto& pin : page.pins)
    rows.push_back({std::to_string(pin.layer), std::to_string(pin.expert), "pinned to " + joined(pin.hosts)});
  for (const auto& order : page.replicas)
    rows.push_back({std::to_string(order.layer), std::to_string(order.expert),
                    "at least " + counted(order.replicas, "host")});
  return result
         + (rows.size() == 1
                ? "pins: none\n"
                : "\n" + table_text({column_kind::number, column_kind::number, column_kind::text}, rows));
}

std::string change_table(const std::string& text) {
  const auto answer = pages::decode<pages::change_page>(text, "the answer is not about the placement");
  const auto& experts = answer.experts;
  if (experts.empty())
    return answer.dry_run ? "no expert would change its hosts\n" : "done; no expert changes its hosts\n";
  std::string result = answer.dry_run ? "dry run" : "change " + std::to_string(answer.change);
  result += " (" + printable(answer.reason) + "): " + counted(experts.size(), "expert")
            + (answer.dry_run        ? " would change"
               : experts.size() == 1 ? " changes"
                                     : " change")
            + " hosts, " + std::to_string(answer.moves) + " to be loaded, " + size_text(answer.bytes) + "\n";
  result += prediction_text(answer.before, answer.after) + "\n";
  std::vector<std::vector<std::string>> rows{{"LAYER", "EXPERT", "FROM", "TO"}};
  for (std::size_t i = 0; i < std::min(experts.size(), max_listed); ++i)
    rows.push_back({std::to_string(experts[i].layer), std::to_string(experts[i].expert),
                    joined(experts[i].from), joined(experts[i].to)});
  result +=
      table_text({column_kind::number, column_kind::number, column_kind::text, column_kind::text}, rows);
  if (experts.size() > max_listed)
    result += "and " + std::to_string(experts.size() - max_listed) + " more; --json shows all\n";
  return result + (answer.dry_run ? "" : "'troupe placement wait' waits until it is over\n");
}

std::string change_under_way(const std::string& text) {
  const auto page = page_of(text);
  return page.change ? progress_text(page.change) : std::string();
}

std::uint64_t moves_given_up(const std::string& text) {
  const auto page = page_of(text);
  return page.last ? page.last->moves_given_up : 0;
}

} // namespace troupe

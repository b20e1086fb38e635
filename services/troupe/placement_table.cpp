#include "services/troupe/placement_table.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"

namespace troupe {

namespace {

using nlohmann::json;

/// Experts of a change that are listed; a plan for a large model has thousands.
constexpr size_t max_listed = 40;

template <class Render>
auto rendered(const std::string& page, Render render) {
  const auto parsed = json::parse(page, nullptr, /*allow_exceptions=*/false);
  try {
    return render(parsed);
  } catch (const json::exception&) {
    throw std::runtime_error("the answer is not about the placement: " + excerpt(page, 300));
  }
}

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string percent(const json& share) {
  return fixed(100 * share.get<double>(), 1) + "%";
}

std::string size_text(uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) {
    value /= 1024;
  }
  return fixed(value, unit == 0 ? 0 : 1) + " " + units[unit];
}

std::string joined(const json& names) {
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "" : ", ") + printable(name.get<std::string>());
  }
  return text.empty() ? "none" : text;
}

std::string number(const json& object, const char* key) {
  return std::to_string(object.at(key).get<uint64_t>());
}

std::string progress_text(const json& change) {
  return number(change, "id") + " (" + printable(change.at("reason").get<std::string>())
         + "): " + counted(change.at("moves_done").get<uint64_t>(), "expert") + " done, "
         + number(change, "moves_left") + " left, " + number(change, "moves_given_up") + " given up, "
         + fixed(static_cast<double>(change.at("elapsed_ms").get<uint64_t>()) / 1000, 1) + " s";
}

/// Workers that the moves in flight give an expert that they did not have, without repetition. A gateway of
/// an earlier release does not say which moves are in flight.
json loading_workers(const json& change) {
  json names = json::array();
  for (const auto& moved : change.value("in_flight", json::array())) {
    const auto& from = moved.at("from");
    for (const auto& name : moved.at("to")) {
      const auto is_in = [&name](const json& list) {
        return std::find(list.begin(), list.end(), name) != list.end();
      };
      if (!is_in(from) && !is_in(names)) {
        names.push_back(name);
      }
    }
  }
  return names;
}

std::string prediction_text(const json& before, const json& after) {
  const auto step = [&](const char* key, int decimals) {
    return fixed(before.at(key).get<double>(), decimals) + " -> "
           + fixed(after.at(key).get<double>(), decimals);
  };
  return "predicted for a step: " + step("step_us", 1) + " us, of which the busiest workers "
         + step("busiest_us", 1) + " us; " + step("messages", 1)
         + " messages; share of a layer's busiest worker " + step("max_share", 3) + "\n";
}

std::string state_of(const json& page) {
  std::string text = "planner: " + printable(page.at("planner").get<std::string>()) + "\n";
  const auto& change = page.at("change");
  const auto& last = page.at("last");
  text += "change under way: " + (change.is_null() ? "none" : progress_text(change)) + "\n";
  if (const auto loading = change.is_null() ? json::array() : loading_workers(change); !loading.empty()) {
    text += "loading: " + joined(loading) + "\n";
  }
  text += "last change: " + (last.is_null() ? "none" : progress_text(last)) + "\n";
  const auto& imbalance = page.at("imbalance");
  text += "imbalance: " + (imbalance.is_null() ? "not known yet" : fixed(imbalance.get<double>(), 2))
          + " (time of the busiest workers over that of an even load)\n";
  text += "one more worker would save " + percent(page.at("gain_of_one_more_worker")) + " of a step; "
          + percent(page.at("waste_of_one_worker")) + " of one worker is not needed\n";
  text += "drained: " + joined(page.at("drained")) + "\n";
  std::vector<std::vector<std::string>> rows{{"LAYER", "EXPERT", "ORDER"}};
  for (const auto& pin : page.at("pins")) {
    rows.push_back({number(pin, "layer"), number(pin, "expert"), "pinned to " + joined(pin.at("hosts"))});
  }
  for (const auto& order : page.at("replicas")) {
    rows.push_back({number(order, "layer"), number(order, "expert"),
                    "at least " + counted(order.at("replicas").get<uint64_t>(), "host")});
  }
  return text
         + (rows.size() == 1
                ? "pins: none\n"
                : "\n" + table_text({column_kind::number, column_kind::number, column_kind::text}, rows));
}

std::string change_of(const json& answer) {
  const auto& experts = answer.at("experts");
  const bool is_dry_run = answer.at("dry_run").get<bool>();
  if (experts.empty()) {
    return is_dry_run ? "no expert would change its hosts\n" : "done; no expert changes its hosts\n";
  }
  std::string text = is_dry_run ? "dry run" : "change " + number(answer, "change");
  text += " (" + printable(answer.at("reason").get<std::string>()) + "): " + counted(experts.size(), "expert")
          + (is_dry_run            ? " would change"
             : experts.size() == 1 ? " changes"
                                   : " change")
          + " hosts, " + number(answer, "moves") + " to be loaded, "
          + size_text(answer.at("bytes").get<uint64_t>()) + "\n";
  text += prediction_text(answer.at("before"), answer.at("after")) + "\n";
  std::vector<std::vector<std::string>> rows{{"LAYER", "EXPERT", "FROM", "TO"}};
  for (size_t i = 0; i < std::min(experts.size(), max_listed); ++i) {
    const auto& moved = experts[i];
    rows.push_back(
        {number(moved, "layer"), number(moved, "expert"), joined(moved.at("from")), joined(moved.at("to"))});
  }
  text += table_text({column_kind::number, column_kind::number, column_kind::text, column_kind::text}, rows);
  if (experts.size() > max_listed) {
    text += "and " + std::to_string(experts.size() - max_listed) + " more; --json shows all\n";
  }
  return text + (is_dry_run ? "" : "'troupe placement wait' waits until it is over\n");
}

} // namespace

std::string placement_table(const std::string& page) {
  return rendered(page, state_of);
}

std::string change_table(const std::string& answer) {
  return rendered(answer, change_of);
}

std::string change_under_way(const std::string& page) {
  return rendered(page, [](const json& state) {
    const auto& change = state.at("change");
    return change.is_null() ? std::string() : progress_text(change);
  });
}

uint64_t moves_given_up(const std::string& page) {
  return rendered(page, [](const json& state) {
    const auto& last = state.at("last");
    return last.is_null() ? uint64_t{0} : last.at("moves_given_up").get<uint64_t>();
  });
}

} // namespace troupe

#include "services/gateway/http/placement_page.hpp"

#include <charconv>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

namespace {

double of_million(uint64_t parts) {
  return static_cast<double>(parts) / 1e6;
}

ordered_json of_expert(expert_id expert) {
  ordered_json result;
  result["layer"] = expert.layer;
  result["expert"] = expert.index;
  return result;
}

ordered_json of_step(const predicted_step& step) {
  ordered_json result;
  result["step_us"] = static_cast<double>(step.step_ns) / 1e3;
  result["busiest_us"] = static_cast<double>(step.busiest_ns) / 1e3;
  result["messages"] = of_million(step.messages_ppm);
  result["max_share"] = of_million(step.max_share_ppm);
  return result;
}

ordered_json of_moves(const std::vector<expert_change>& moves) {
  auto result = ordered_json::array();
  for (const auto& moved : moves) {
    auto entry = of_expert(moved.expert);
    entry["from"] = moved.from;
    entry["to"] = moved.to;
    result.push_back(std::move(entry));
  }
  return result;
}

ordered_json of_progress(const change_progress_status& progress) {
  ordered_json result;
  result["id"] = progress.change.id;
  result["reason"] = progress.change.reason;
  result["moves"] = progress.change.moves;
  result["bytes"] = progress.change.bytes;
  result["moves_done"] = progress.done;
  result["moves_given_up"] = progress.given_up;
  result["moves_left"] = progress.left;
  result["elapsed_ms"] = progress.elapsed_ms;
  if (progress.left > 0)
    result["in_flight"] = of_moves(progress.change.experts);
  result["before"] = of_step(progress.change.before);
  result["after"] = of_step(progress.change.after);
  return result;
}

std::string render(const ordered_json& page) {
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

std::string placement_page(const rebalancer_status& status) {
  ordered_json page;
  page["planner"] = to_string(status.mode);
  page["change"] = nullptr;
  page["last"] = nullptr;
  for (const auto& progress : status.changes)
    page[progress.left > 0 ? "change" : "last"] = of_progress(progress);
  page["pins"] = ordered_json::array();
  for (const auto& pin : status.pins) {
    auto entry = of_expert(pin.expert);
    entry["hosts"] = pin.hosts;
    page["pins"].push_back(std::move(entry));
  }
  page["replicas"] = ordered_json::array();
  for (const auto& order : status.replicas) {
    auto entry = of_expert(order.expert);
    uint32_t count = 0;
    for (const auto& text : order.hosts)
      std::from_chars(text.data(), text.data() + text.size(), count);
    entry["replicas"] = count;
    page["replicas"].push_back(std::move(entry));
  }
  page["drained"] = status.drained;
  page["imbalance"] = nullptr;
  if (status.imbalance_ppm > 0)
    page["imbalance"] = of_million(status.imbalance_ppm);
  page["gain_of_one_more_worker"] = of_million(status.gain_of_one_more_ppm);
  page["waste_of_one_worker"] = of_million(status.waste_of_one_ppm);
  return render(page);
}

std::string change_page(const placement_change& change, bool is_dry_run) {
  ordered_json page;
  page["change"] = change.id;
  page["dry_run"] = is_dry_run;
  page["reason"] = change.reason;
  page["moves"] = change.moves;
  page["bytes"] = change.bytes;
  page["before"] = of_step(change.before);
  page["after"] = of_step(change.after);
  page["experts"] = of_moves(change.experts);
  return render(page);
}

} // namespace troupe::http

#include "services/top/cluster_state.hpp"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "services/client/terminal_text.hpp"

namespace troupe::top {

namespace {

using nlohmann::json;

template <class Read>
auto parsed(const std::string& page, const char* what, Read read) {
  const json all = json::parse(page, nullptr, /*allow_exceptions=*/false);
  try {
    return read(all);
  } catch (const std::exception&) { // of the wrong shape, or with numbers that fit nothing
    throw std::runtime_error(std::string("the answer is not about ") + what + ": " + excerpt(page, 200));
  }
}

/// Nothing where the member is missing.
std::optional<uint64_t> number_if_any(const json& entry, const char* key) {
  const auto found = entry.find(key);
  return found == entry.end() ? std::nullopt : std::optional(found->get<uint64_t>());
}

worker_state worker_of(const json& entry) {
  worker_state worker;
  worker.name = entry.at("name");
  worker.role = entry.at("role");
  worker.lease_age_ms = number_if_any(entry, "lease_age_ms");
  if (entry.contains("load")) {
    const json& load = entry["load"];
    worker.running = load.at("running").get<uint64_t>();
    worker.waiting = load.at("waiting").get<uint64_t>();
    worker.kv_tokens_used = number_if_any(load, "kv_tokens_used");
    worker.oldest_step_ms = number_if_any(load, "oldest_step_ms");
  }
  worker.max_num_seqs = number_if_any(entry, "max_num_seqs");
  worker.kv_capacity_tokens = number_if_any(entry, "kv_capacity_tokens");
  if (entry.contains("hosted")) {
    worker.num_hosted = entry["hosted"].size();
  }
  return worker;
}

change_state change_of(const json& entry) {
  return {entry.at("id"), entry.at("reason"), entry.at("moves_done"), entry.at("moves_left"),
          entry.at("moves_given_up")};
}

} // namespace

cluster_state parse_cluster(const std::string& page) {
  return parsed(page, "the cluster", [](const json& all) {
    cluster_state state;
    state.is_ready = all.at("ready");
    const json& scheduler = all.at("scheduler");
    if (!scheduler.at("reachable").get<bool>()) {
      state.scheduler_error = scheduler.value("error", "no reason given");
    }
    state.term = number_if_any(scheduler, "term");
    state.queued = number_if_any(scheduler, "queued");
    state.assigned = number_if_any(scheduler, "assigned");
    for (const json& entry : all.at("workers")) {
      state.workers.push_back(worker_of(entry));
    }
    if (all.at("placement").contains("layers")) {
      for (const json& layer : all["placement"]["layers"]) {
        layer.at("experts").get_to(state.hosts.emplace_back());
      }
    }
    return state;
  });
}

placement_state parse_placement(const std::string& page) {
  return parsed(page, "the placement", [](const json& all) {
    placement_state state;
    state.planner = all.at("planner");
    if (!all.at("imbalance").is_null()) {
      state.imbalance = all["imbalance"].get<double>();
    }
    if (!all.at("change").is_null()) {
      state.change = change_of(all["change"]);
    }
    all.at("drained").get_to(state.drained);
    return state;
  });
}

expert_rows parse_history(const std::string& page) {
  return parsed(page, "the history", [](const json& all) {
    expert_rows rows;
    for (const json& num_experts : all.at("layer_experts")) {
      rows.emplace_back(num_experts.get<size_t>());
    }
    for (const json& window : all.at("windows")) {
      const json& layers = window.at("rows");
      for (size_t layer = 0; layer < std::min(layers.size(), rows.size()); ++layer) {
        const json& pairs = layers[layer]; // [expert, rows, expert, rows, …]
        for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
          rows[layer].at(pairs[i].get<size_t>()) += pairs[i + 1].get<double>();
        }
      }
    }
    return rows;
  });
}

} // namespace troupe::top

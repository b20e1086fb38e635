#include "services/gateway/http/cluster_page.hpp"

#include <cstdio>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

namespace {

using worker_names = std::unordered_map<worker_id, std::string>;

/// 64-bit ids do not fit the numbers of JavaScript.
std::string hex(worker_id id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

const char* name_of(worker_role role) {
  switch (role) {
  case worker_role::gateway:
    return "gateway";
  case worker_role::attention:
    return "attention";
  case worker_role::expert:
    return "expert";
  }
  return "unknown";
}

ordered_json address_of(const worker_address& address) {
  ordered_json result;
  result["name"] = address.name;
  result["role"] = name_of(address.role);
  result["id"] = hex(address.id);
  result["endpoint"] = address.endpoint;
  return result;
}

ordered_json version_of(const placement& experts) {
  ordered_json result;
  result["term"] = experts.term;
  result["epoch"] = experts.epoch;
  return result;
}

ordered_json experts_of(const placement& experts, const worker_names& names) {
  ordered_json layers = ordered_json::array();
  for (size_t layer = 0; layer < experts.layers.size(); ++layer) {
    const layer_placement& placed = *experts.layers[layer];
    ordered_json hosts_of_experts = ordered_json::array();
    for (const expert_hosts& expert : placed.experts) {
      ordered_json hosts = ordered_json::array();
      for (const worker_id host : expert.hosts) {
        const auto found = names.find(host);
        hosts.push_back(found == names.end() ? hex(host) : found->second);
      }
      hosts_of_experts.push_back(std::move(hosts));
    }
    ordered_json entry;
    entry["layer"] = layer;
    entry["version"] = placed.version;
    entry["experts"] = std::move(hosts_of_experts);
    layers.push_back(std::move(entry));
  }
  ordered_json result = version_of(experts);
  result["layers"] = std::move(layers);
  return result;
}

ordered_json worker_of(const worker_status& worker) {
  ordered_json result = address_of(worker.address);
  result["numerics_class"] = worker.numerics_class;
  result["lease_age_ms"] = worker.lease_age_ms;
  ordered_json load;
  load["running"] = worker.load.running;
  load["waiting"] = worker.load.waiting;
  load["kv_tokens_used"] = worker.load.kv_tokens_used;
  load["oldest_step_ms"] = worker.load.engine.oldest_step_ms;
  if (worker.address.role == worker_role::attention) {
    result["max_num_seqs"] = worker.max_num_seqs;
    result["kv_capacity_tokens"] = worker.kv_capacity_tokens;
    result["max_model_len"] = worker.max_model_len;
  }
  result["load"] = std::move(load);
  ordered_json hosted = ordered_json::array();
  for (const expert_id& expert : worker.hosted)
    hosted.push_back({expert.layer, expert.index});
  result["hosted"] = std::move(hosted);
  return result;
}

std::string as_text(const ordered_json& page) {
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

std::string cluster_page(const scheduler_status& status) {
  worker_names names;
  ordered_json workers = ordered_json::array();
  for (const worker_status& worker : status.workers) {
    names[worker.address.id] = worker.address.name;
    workers.push_back(worker_of(worker));
  }
  ordered_json scheduler;
  scheduler["reachable"] = true;
  scheduler["term"] = status.term;
  scheduler["fingerprint"] = status.fingerprint;
  scheduler["queued"] = status.queued;
  scheduler["assigned"] = status.assigned;
  ordered_json page;
  page["ready"] = status.ready;
  page["scheduler"] = std::move(scheduler);
  page["workers"] = std::move(workers);
  page["placement"] = experts_of(status.experts, names);
  return as_text(page);
}

std::string cluster_page(const last_view& known, const std::string& why) {
  const cluster_view& view = known.cluster;
  ordered_json workers = ordered_json::array();
  for (const worker_address& worker : view.workers)
    workers.push_back(address_of(worker));
  ordered_json scheduler;
  scheduler["reachable"] = false;
  scheduler["error"] = why;
  ordered_json page;
  page["ready"] = view.ready && !known.scheduler_away;
  page["scheduler"] = std::move(scheduler);
  page["workers"] = std::move(workers);
  page["placement"] = version_of(view.experts);
  return as_text(page);
}

} // namespace troupe::http

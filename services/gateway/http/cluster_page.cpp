#include "services/gateway/http/cluster_page.hpp"

#include <cstdio>
#include <unordered_map>
#include <utility>
#include <variant>

#include "services/pages/cluster_page.hpp"

namespace troupe::http {

namespace {

using worker_names = std::unordered_map<worker_id, std::string>;

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

pages::worker_part address_of(const worker_address& address) {
  pages::worker_part result;
  result.name = address.name;
  result.role = name_of(address.role);
  result.id = hex(address.id);
  result.endpoint = address.endpoint;
  return result;
}

std::vector<pages::layer_part> layers_of(const placement& experts, const worker_names& names) {
  std::vector<pages::layer_part> result;
  for (const auto& placed : experts.layers) {
    auto& layer = result.emplace_back(pages::layer_part{result.size(), placed->version, {}});
    for (const expert_hosts& expert : placed->experts) {
      auto& hosts = layer.experts.emplace_back();
      for (const worker_id host : expert.hosts) {
        const auto found = names.find(host);
        hosts.push_back(found == names.end() ? hex(host) : found->second);
      }
    }
  }
  return result;
}

pages::worker_part worker_of(const worker_status& worker) {
  pages::worker_part result = address_of(worker.address);
  result.numerics_class = worker.numerics_class;
  result.lease_age_ms = worker.lease_age_ms;
  if (worker.address.role == worker_role::attention) {
    result.max_num_seqs = worker.max_num_seqs;
    result.kv_capacity_tokens = worker.kv_capacity_tokens;
    result.max_model_len = worker.max_model_len;
  }
  const auto* attention = std::get_if<attention_load>(&worker.load.of_role);
  auto& load = result.load.emplace();
  load.running = worker.load.running;
  load.waiting = worker.load.waiting;
  load.kv_tokens_used = attention == nullptr ? 0 : attention->kv_tokens_used;
  if (attention != nullptr) {
    load.prefix_queries = attention->prefix_queries;
    load.prefix_hits = attention->prefix_hits;
  }
  load.oldest_step_ms = worker.load.engine.oldest_step_ms;
  result.hosted.emplace();
  for (const expert_id& expert : worker.hosted)
    result.hosted->emplace_back(expert.layer, expert.index);
  return result;
}

} // namespace

std::string cluster_page(const scheduler_status& status) {
  worker_names names;
  pages::cluster_page page;
  page.ready = status.ready;
  page.scheduler = {true, std::nullopt, status.term, status.fingerprint, status.queued, status.assigned};
  for (const worker_status& worker : status.workers) {
    names[worker.address.id] = worker.address.name;
    page.workers.push_back(worker_of(worker));
  }
  page.placement = {status.experts.term, status.experts.epoch, layers_of(status.experts, names)};
  return encode(page);
}

std::string cluster_page(const last_view& known, const std::string& why) {
  const cluster_view& view = known.cluster;
  pages::cluster_page page;
  page.ready = view.ready && !known.scheduler_away;
  page.scheduler.error = why;
  for (const worker_address& worker : view.workers)
    page.workers.push_back(address_of(worker));
  page.placement = {view.experts.term, view.experts.epoch, std::nullopt};
  return encode(page);
}

} // namespace troupe::http

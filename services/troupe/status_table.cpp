#include "services/troupe/status_table.hpp"

#include <cstddef>
#include <vector>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"
#include "services/pages/cluster_page.hpp"

namespace troupe {

namespace {

/// As the headings in status_table.
const std::vector<column_kind> columns{column_kind::text,   column_kind::text,   column_kind::text,
                                       column_kind::number, column_kind::number, column_kind::number,
                                       column_kind::number, column_kind::number, column_kind::number};
using row = std::vector<std::string>;

std::string number_or_dash(pages::count number) {
  return number ? std::to_string(*number) : "-";
}

/// Share of the tokens that a worker did not compute, as it had their keys.
std::string hit_rate(const pages::load_part& load) {
  if (load.prefix_queries.value_or(0) == 0)
    return "-";
  return std::to_string(load.prefix_hits.value_or(0) * 100 / *load.prefix_queries) + " %";
}

row worker_row(const pages::worker_part& worker) {
  const pages::load_part load = worker.load.value_or(pages::load_part{});
  return {worker.name,
          worker.role,
          worker.endpoint.empty() ? "(this process)" : worker.endpoint,
          number_or_dash(worker.lease_age_ms) + (worker.lease_age_ms ? " ms" : ""),
          number_or_dash(load.running),
          number_or_dash(load.waiting),
          worker.role == "attention" ? number_or_dash(load.kv_tokens_used) : "-",
          hit_rate(load),
          worker.role == "expert" && worker.hosted ? std::to_string(worker.hosted->size()) : "-"};
}

std::string placement_summary(const pages::placement_part& placement) {
  const auto version =
      "placement: term " + number_or_dash(placement.term) + ", epoch " + number_or_dash(placement.epoch);
  if (!placement.layers) // a gateway does not know where experts live
    return version + "\n";
  std::size_t layers = 0;
  std::size_t experts = 0;
  std::size_t unhosted = 0;
  std::size_t replicas = 0;
  for (const auto& layer : *placement.layers) {
    layers += layer.experts.empty() ? 0 : 1;
    for (const auto& hosts : layer.experts) {
      ++experts;
      replicas += hosts.size();
      unhosted += hosts.empty() ? 1 : 0;
    }
  }
  return version + "; " + counted(experts, "expert") + " in " + counted(layers, "layer") + ", "
         + counted(replicas, "replica")
         + (unhosted == 0 ? ", all hosted" : ", " + counted(unhosted, "expert") + " without a host") + "\n";
}

} // namespace

std::string status_table(const std::string& text) {
  const auto page = pages::decode<pages::cluster_page>(text, "the answer is no cluster page");
  const pages::scheduler_part& scheduler = page.scheduler;
  std::string result = page.ready ? "ready" : "NOT READY";
  if (scheduler.reachable)
    result += "; scheduler: term " + number_or_dash(scheduler.term) + ", " + number_or_dash(scheduler.queued)
              + " queued, " + number_or_dash(scheduler.assigned) + " assigned\n";
  else
    result += "; the scheduler does not answer: " + printable(scheduler.error.value_or("no reason given"))
              + "; this is what the gateway last knew\n";
  std::vector<row> rows{
      {"WORKER", "ROLE", "ENDPOINT", "LEASE", "RUNNING", "WAITING", "KV TOKENS", "PREFIX HITS", "EXPERTS"}};
  for (const auto& worker : page.workers)
    rows.push_back(worker_row(worker));
  return result + "\n" + table_text(columns, rows) + "\n" + placement_summary(page.placement)
         + "running and waiting: sequences of an attention worker; batches and rows of an expert worker; "
           "requests of a gateway\n"
           "prefix hits: tokens whose keys the worker had, of all that its sequences started with\n";
}

} // namespace troupe

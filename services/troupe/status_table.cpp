#include "services/troupe/status_table.hpp"

#include <cstddef>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"

namespace troupe {

namespace {

using nlohmann::json;

/// As the headings in table_of.
const std::vector<column_kind> columns{column_kind::text,   column_kind::text,   column_kind::text,
                                       column_kind::number, column_kind::number, column_kind::number,
                                       column_kind::number, column_kind::number};
using row = std::vector<std::string>;

std::string number_or_dash(const json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->dump() : "-";
}

row worker_row(const json& worker) {
  static const json none = json::object();
  const json& load = worker.contains("load") ? worker["load"] : none;
  std::string role = worker.value("role", "?");
  bool is_attention = role == "attention";
  std::string lease = number_or_dash(worker, "lease_age_ms");
  return {worker.value("name", "?"),
          role,
          worker.value("endpoint", "").empty() ? "(this process)" : worker.value("endpoint", ""),
          lease == "-" ? lease : lease + " ms",
          number_or_dash(load, "running"),
          number_or_dash(load, "waiting"),
          is_attention ? number_or_dash(load, "kv_tokens_used") : "-",
          role == "expert" && worker.contains("hosted") ? std::to_string(worker["hosted"].size()) : "-"};
}

std::string placement_summary(const json& placement) {
  const auto version = "placement: term " + number_or_dash(placement, "term") + ", epoch "
                       + number_or_dash(placement, "epoch");
  if (!placement.contains("layers")) { // a gateway does not know where experts live
    return version + "\n";
  }
  size_t layers = 0;
  size_t experts = 0;
  size_t unhosted = 0;
  size_t replicas = 0;
  for (const auto& layer : placement.at("layers")) {
    const auto& of_layer = layer.at("experts");
    layers += of_layer.empty() ? 0 : 1;
    for (const auto& hosts : of_layer) {
      ++experts;
      replicas += hosts.size();
      unhosted += hosts.empty() ? 1 : 0;
    }
  }
  return version + "; " + counted(experts, "expert") + " in " + counted(layers, "layer") + ", "
         + counted(replicas, "replica")
         + (unhosted == 0 ? ", all hosted" : ", " + counted(unhosted, "expert") + " without a host") + "\n";
}

std::string table_of(const json& page) {
  const json& scheduler = page.at("scheduler");
  std::string text = page.at("ready").get<bool>() ? "ready" : "NOT READY";
  if (scheduler.value("reachable", false)) {
    text += "; scheduler: term " + number_or_dash(scheduler, "term") + ", "
            + number_or_dash(scheduler, "queued") + " queued, " + number_or_dash(scheduler, "assigned")
            + " assigned\n";
  } else {
    text += "; the scheduler does not answer: " + printable(scheduler.value("error", "no reason given"))
            + "; this is what the gateway last knew\n";
  }
  std::vector<row> rows{
      {"WORKER", "ROLE", "ENDPOINT", "LEASE", "RUNNING", "WAITING", "KV TOKENS", "EXPERTS"}};
  for (const auto& worker : page.at("workers")) {
    rows.push_back(worker_row(worker));
  }
  return text + "\n" + table_text(columns, rows) + "\n" + placement_summary(page.at("placement"))
         + "running and waiting: sequences of an attention worker; batches and rows of an expert worker; "
           "requests of a "
           "gateway\n";
}

} // namespace

std::string status_table(const std::string& page) {
  auto parsed = json::parse(page, nullptr, /*allow_exceptions=*/false);
  try {
    return table_of(parsed);
  } catch (const json::exception&) {
    throw std::runtime_error("the answer is no cluster page: " + excerpt(page, 300));
  }
}

} // namespace troupe

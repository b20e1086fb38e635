// /ready of this gateway, and /cluster/ready. Once a gateway has seen the cluster ready, its own readiness no
// longer depends on the cluster, so that no shared fault takes all gateways out of a Service.
#include "services/gateway/http/endpoints/endpoint.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "services/gateway/http/endpoints/known_view.hpp"

namespace troupe::http {

using nlohmann::ordered_json;

namespace {

/// The reason why no request can be served now; empty: requests can be served.
std::string flaw_of_cluster(const last_view& known) {
  if (known.scheduler_away)
    return "the scheduler is away";
  if (!known.cluster.ready)
    return "not every expert has a host and an attention worker to use it";
  return {};
}

/// @param why_not  empty: ready
response readiness(const std::string& why_not) {
  ordered_json page;
  page["ready"] = why_not.empty();
  if (why_not.empty())
    return page_response(200, page);
  page["reason"] = why_not;
  response answer = page_response(503, page);
  answer.headers.emplace_back("retry-after", "1");
  return answer;
}

} // namespace

task<void> get_ready(exchange& client, api& shared) {
  std::string reason;
  if (shared.draining) {
    reason = "draining";
  } else {
    const auto known = co_await known_view(client, shared);
    if (!known)
      reason = "the gateway does not answer";
    else if (!known->has_been_ready)
      reason = flaw_of_cluster(*known);
  }
  co_await client.send(readiness(reason));
}

task<void> get_cluster_ready(exchange& client, api& shared) {
  const auto known = co_await known_view(client, shared);
  std::string reason = "the gateway does not answer";
  if (known)
    reason = flaw_of_cluster(*known);
  co_await client.send(readiness(reason));
}

} // namespace troupe::http

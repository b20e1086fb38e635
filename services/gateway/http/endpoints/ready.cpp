#include "services/gateway/http/endpoints/endpoint.hpp"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/http/endpoints/known_view.hpp"

namespace troupe::http {

using nlohmann::ordered_json;

task<void> get_ready(exchange& client, api& shared) {
  std::string reason;
  if (shared.draining) {
    reason = "draining";
  } else {
    const auto view = co_await known_view(client, shared);
    if (!view)
      reason = "the gateway does not answer";
    else if (view->scheduler_away)
      reason = "the scheduler is away";
    else if (!view->cluster.ready)
      reason = "not every expert has a host and an attention worker to use it";
  }
  ordered_json page;
  page["ready"] = reason.empty();
  if (reason.empty()) {
    co_await client.send(json_response(200, render(page)));
    co_return;
  }
  page["reason"] = reason;
  response answer = json_response(503, render(page));
  answer.headers.emplace_back("retry-after", "1");
  co_await client.send(std::move(answer));
}

} // namespace troupe::http

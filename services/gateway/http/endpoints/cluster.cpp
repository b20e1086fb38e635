#include "services/gateway/http/endpoints/endpoint.hpp"

#include <string>
#include <variant>

#include "services/gateway/http/cluster_page.hpp"
#include "services/gateway/http/endpoints/known_view.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/reply_slot.hpp"

namespace troupe::http {

namespace {

using status_answer = std::variant<scheduler_status, backend_error>;

} // namespace

task<void> get_cluster(exchange& client, api& shared) {
  reply_slot<status_answer> slot{client.executor()};
  shared.backend->status(slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (answer && std::holds_alternative<scheduler_status>(*answer))
    co_return co_await client.send(json_response(200, cluster_page(std::get<scheduler_status>(*answer))));
  const std::string why = answer ? std::get<backend_error>(*answer).text : "no answer in time";
  const auto view = co_await known_view(client, shared);
  if (!view)
    throw api_error_of(ec::not_ready, "neither scheduler nor gateway answers: " + why);
  co_await client.send(json_response(200, cluster_page(*view, why)));
}

} // namespace troupe::http

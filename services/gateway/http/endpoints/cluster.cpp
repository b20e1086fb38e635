#include <string>

#include "services/gateway/http/cluster_page.hpp"
#include "services/gateway/http/endpoints/control.hpp"
#include "services/gateway/http/endpoints/known_view.hpp"

namespace troupe::http {

task<void> get_cluster(exchange& client, api& shared) {
  auto outcome = co_await ask_control(client, shared, status_question{}, ec::not_ready, "no answer in time");
  const auto* failure = std::get_if<backend_error>(&outcome);
  if (failure == nullptr)
    co_return co_await client.send(
        json_response(200, cluster_page(answer_in<scheduler_status>(std::move(outcome)))));
  const auto view = co_await known_view(client, shared);
  if (!view)
    throw api_error_of(ec::not_ready, "neither scheduler nor gateway answers: " + failure->text);
  co_await client.send(json_response(200, cluster_page(*view, failure->text)));
}

} // namespace troupe::http

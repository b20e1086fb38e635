#include <utility>

#include "actors/protocol/defaults.hpp"
#include "services/gateway/http/background.hpp"
#include "services/gateway/http/endpoints/control.hpp"
#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/placement_page.hpp"

namespace troupe::http {

namespace {

/// As `status_deadline`, for the service that carries a command out.
constexpr auto command_deadline =
    defaults::placement_command + 2 * defaults::local_request + defaults::connect_timeout;

} // namespace

task<void> get_placement(exchange& client, api& shared) {
  auto outcome = co_await ask_control(client, shared, placement_question{}, ec::not_ready,
                                      "the rebalancer does not answer in time");
  co_await client.send(json_response(200, placement_page(answer_in<rebalancer_status>(std::move(outcome)))));
}

task<void> post_placement(exchange& client, api& shared) {
  const std::string& body = client.incoming().body;
  const auto asked = co_await shared.work.run(body.size(), [&] { return parse_placement_command(body); });
  auto outcome = co_await ask_control(client, shared, asked, ec::deadline_exceeded,
                                      "the gateway's actors did not answer in time; the command may "
                                      "have been carried out all the same",
                                      command_deadline);
  if (const auto* failure = std::get_if<backend_error>(&outcome)) {
    auto error = api_error_of(failure->code, failure->text);
    if (error.code == reason_of(ec::deadline_exceeded) || error.code == reason_of(ec::peer_down))
      error.retry_after = 0; // a client must look at the state before it repeats the command
    throw error;
  }
  const auto change = answer_in<placement_change>(std::move(outcome));
  response page = co_await shared.work.run(change.experts.size() * sizeof(expert_change), [&] {
    return json_response(200, change_page(change, asked.dry_run));
  });
  co_await client.send(std::move(page));
}

} // namespace troupe::http

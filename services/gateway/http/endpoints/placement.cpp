#include "services/gateway/http/endpoints/endpoint.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "actors/defaults.hpp"
#include "services/gateway/http/background.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/placement_page.hpp"
#include "services/gateway/http/reply_slot.hpp"

namespace troupe::http {

namespace {

/// As `status_deadline`, for who carries a command out.
constexpr auto command_deadline =
    defaults::placement_command + 2 * defaults::local_request + defaults::connect_timeout;

using placement_answer = std::variant<rebalancer_status, backend_error>;
using change_answer = std::variant<placement_change, backend_error>;

} // namespace

task<void> get_placement(exchange& client, api& shared) {
  reply_slot<placement_answer> slot{client.executor()};
  shared.backend->placement(slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (!answer)
    throw api_error_of(ec::not_ready, "the rebalancer does not answer in time");
  if (const auto* error = std::get_if<backend_error>(&*answer))
    throw api_error_of(error->code, error->text);
  co_await client.send(json_response(200, placement_page(std::get<rebalancer_status>(*answer))));
}

task<void> post_placement(exchange& client, api& shared) {
  const std::string& body = client.incoming().body;
  const auto asked = co_await shared.work.run(body.size(), [&] { return parse_placement_command(body); });
  reply_slot<change_answer> slot{client.executor()};
  shared.backend->change_placement(asked, slot.callback());
  const auto answer = co_await slot.wait(command_deadline);
  const auto* failure = answer ? std::get_if<backend_error>(&*answer) : nullptr;
  if (!answer || failure != nullptr) {
    auto error = failure != nullptr
                     ? api_error_of(failure->code, failure->text)
                     : api_error_of(ec::deadline_exceeded,
                                    "the gateway's actors did not answer in time; the command may "
                                    "have been carried out all the same");
    if (error.code == reason_of(ec::deadline_exceeded) || error.code == reason_of(ec::peer_down))
      error.retry_after = 0; // nobody should repeat it without looking
    throw error;
  }
  const auto& change = std::get<placement_change>(*answer);
  response page = co_await shared.work.run(change.experts.size() * sizeof(expert_change), [&] {
    return json_response(200, change_page(change, asked.dry_run));
  });
  co_await client.send(std::move(page));
}

} // namespace troupe::http

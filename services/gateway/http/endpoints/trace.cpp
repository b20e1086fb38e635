#include "services/gateway/http/endpoints/endpoint.hpp"

#include <variant>

#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/reply_slot.hpp"
#include "services/gateway/http/trace_page.hpp"

namespace troupe::http {

namespace {

using trace_answer = std::variant<trace_receipt, backend_error>;

} // namespace

task<void> post_trace(exchange& client, api& shared) {
  const auto asked = parse_trace_command(client.incoming().body);
  reply_slot<trace_answer> slot{client.executor()};
  shared.backend->trace(asked, slot.callback());
  const auto answer = co_await slot.wait(status_deadline);
  if (!answer)
    throw api_error_of(ec::deadline_exceeded, "the gateway's actors did not answer in time");
  if (const auto* failure = std::get_if<backend_error>(&*answer))
    throw api_error_of(failure->code, failure->text);
  co_await client.send(json_response(200, trace_receipt_page(std::get<trace_receipt>(*answer))));
}

} // namespace troupe::http

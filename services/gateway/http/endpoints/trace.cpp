#include "services/gateway/http/endpoints/control.hpp"
#include "services/gateway/http/trace_page.hpp"

namespace troupe::http {

task<void> post_trace(exchange& client, api& shared) {
  const auto asked = parse_trace_command(client.incoming().body);
  auto outcome = co_await ask_control(client, shared, asked, ec::deadline_exceeded,
                                      "the gateway's actors did not answer in time");
  co_await client.send(json_response(200, trace_receipt_page(answer_in<trace_receipt>(std::move(outcome)))));
}

} // namespace troupe::http

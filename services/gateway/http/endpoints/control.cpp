#include "services/gateway/http/endpoints/control.hpp"

#include "services/gateway/http/reply_slot.hpp"

namespace troupe::http {

task<control_outcome> ask_control(exchange& client, api& shared, control_question question, ec late_code,
                                  const char* late_text, std::chrono::milliseconds patience) {
  reply_slot<control_outcome> slot{client.executor()};
  shared.control->ask(question, slot.callback());
  auto outcome = co_await slot.wait(patience);
  if (!outcome)
    co_return backend_error{late_code, late_text};
  co_return std::move(*outcome);
}

} // namespace troupe::http

#include "services/gateway/http/endpoints/known_view.hpp"

#include <chrono>
#include <variant>

#include "services/gateway/http/reply_slot.hpp"

namespace troupe::http {

namespace {

/// Guards against no answer at all, because probes must not hang: the gateway's actor has a shorter deadline.
constexpr auto view_deadline = std::chrono::milliseconds{2000};

using view_answer = std::variant<last_view, backend_error>;

} // namespace

task<std::optional<last_view>> known_view(exchange& client, api& shared) {
  reply_slot<view_answer> slot{client.executor()};
  shared.backend->view(slot.callback());
  const auto answer = co_await slot.wait(view_deadline);
  if (!answer || !std::holds_alternative<last_view>(*answer))
    co_return std::nullopt;
  co_return std::get<last_view>(*answer);
}

} // namespace troupe::http

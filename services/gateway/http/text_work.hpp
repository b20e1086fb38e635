// Text work for one client, which is cancelled when the client leaves.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "actors/protocol/error.hpp"
#include "services/gateway/http/api.hpp"
#include "services/gateway/http/background.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// As background::run. Cancels the job if the client leaves, or if the server stops and its patience is over.
/// @throws text::work_cancelled when the client has gone; api_error 503 when the server stops; the
/// exceptions of `work` and background::run
template <class Work>
task<std::invoke_result_t<Work>> run_for(exchange& client, api& shared, std::size_t num_bytes, Work work) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  client.watch([&client, &pool = shared.work, cancelled] {
    if (client.gone() || client.time_is_up())
      pool.cancel(cancelled);
  });
  std::optional<std::invoke_result_t<Work>> result;
  try {
    auto done = co_await shared.work.run(num_bytes, std::move(work), cancelled);
    result.emplace(std::move(done));
  } catch (const text::work_cancelled&) { // the reason follows
  }
  co_await client.unwatch();
  if (client.gone())
    throw text::work_cancelled();
  if (!result) {
    shared.metrics->rejected(reason_of(ec::shutting_down));
    throw api_error_of(ec::shutting_down, "the gateway is shutting down");
  }
  co_return std::move(*result);
}

} // namespace troupe::http

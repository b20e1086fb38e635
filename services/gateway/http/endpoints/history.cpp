#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "actors/protocol/defaults.hpp"
#include "services/gateway/http/background.hpp"
#include "services/gateway/http/endpoints/control.hpp"
#include "services/gateway/http/request_target.hpp"
#include "services/history/history_json.hpp"

namespace troupe::http {

using openai::api_error;

namespace {

/// Windows of the history where a query names no number: some megabytes of a large model.
constexpr std::uint32_t history_windows = 32;

/// How many windows a query asks for.
std::uint32_t windows_of(std::string_view query) {
  constexpr std::uint32_t most = defaults::max_history_windows;
  const auto asked = parameter_of(query, "windows");
  if (!asked)
    return history_windows;
  std::uint32_t count = 0;
  const char* end = asked->data() + asked->size();
  const auto read = std::from_chars(asked->data(), end, count);
  if (asked->empty() || read.ec != std::errc{} || read.ptr != end || count > most)
    throw api_error(400, "invalid_request_error",
                    "windows must be a whole number from 0 to " + std::to_string(most), "windows");
  return count;
}

} // namespace

task<void> get_history(exchange& client, api& shared) {
  auto outcome = co_await ask_control(client, shared, history_question{windows_of(client.incoming().query)},
                                      ec::not_ready, "the history does not answer in time");
  if (auto* error = std::get_if<backend_error>(&outcome))
    error->code = ec::not_ready; // whatever it was
  const auto known = answer_in<history_snapshot>(std::move(outcome));
  std::size_t bytes = 0; // about as much as is to be done
  for (const history_window& window : known.windows)
    bytes += window.encoded.size();
  response page = co_await shared.work.run(bytes, [&] { return json_response(200, history_json(known)); });
  co_await client.send(std::move(page));
}

} // namespace troupe::http

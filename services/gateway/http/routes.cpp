#include "services/gateway/http/routes.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "services/gateway/text/work_limit.hpp"

namespace troupe::http {

using openai::api_error;

namespace {

bool leads_to(const route& known, std::string_view path) {
  const std::string_view start = known.path;
  return path == start ? !start.ends_with('/') : start.ends_with('/') && path.starts_with(start);
}

} // namespace

const route& route_table::find(std::string_view method, std::string_view path, std::string& allow) const {
  for (const route& known : routes_) {
    if (!leads_to(known, path))
      continue;
    allow += std::string(allow.empty() ? "" : ", ") + (known.post ? "POST" : "GET, HEAD");
    if (known.post ? method == "POST" : method == "GET" || method == "HEAD")
      return known;
  }
  if (!allow.empty())
    throw api_error(405, "invalid_request_error",
                    "Method " + std::string(method) + " is not allowed for " + std::string(path) + "; use "
                        + allow,
                    {}, "method_not_allowed");
  throw api_error(404, "invalid_request_error",
                  "Unknown request URL: " + std::string(method) + " " + std::string(path), {}, "unknown_url");
}

task<void> handle(exchange& client, api& shared, const route& where) {
  std::optional<response> refusal;
  try {
    co_await where.answer(client, shared);
  } catch (const text::work_cancelled&) { // the client is gone
    shared.metrics->client_gone(client.too_slow());
  } catch (const std::exception&) {
    refusal = answer_to_exception(shared);
  }
  // An endpoint that failed may have left a watch that calls into it.
  co_await client.unwatch();
  if (refusal)
    co_await client.send(std::move(*refusal));
}

} // namespace troupe::http

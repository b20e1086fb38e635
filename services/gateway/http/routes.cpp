#include "services/gateway/http/routes.hpp"

#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/trace_page.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

using openai::api_error;

namespace {

constexpr bool get = false;
constexpr bool post = true;
constexpr bool with_key = false;
constexpr bool open = true;

template <page_function Page>
task<void> send_page(exchange& client, api& shared) {
  co_await client.send(Page(client.incoming(), shared));
}

constexpr route routes[] = {
    {"/cluster", get_cluster, get, with_key},
    {"/cluster/history", get_history, get, with_key},
    {"/cluster/placement", get_placement, get, with_key},
    {"/cluster/placement", post_placement, post, with_key, max_placement_command_bytes},
    {"/cluster/trace", post_trace, post, with_key, max_trace_command_bytes},
    {"/detokenize", post_detokenize, post, with_key},
    {"/health", send_page<get_health>, get, open},
    {"/metrics", send_page<get_metrics>, get, open},
    {"/ready", get_ready, get, open},
    {"/tokenize", post_tokenize, post, with_key},
    {"/v1/chat/completions", post_chat_completions, post, with_key},
    {"/v1/completions", post_completions, post, with_key},
    {"/v1/models", send_page<get_models>, get, with_key},
    {"/v1/models/", send_page<get_model>, get, with_key},
    {"/version", send_page<get_version>, get, with_key},
};

bool leads_to(const route& known, std::string_view path) {
  const std::string_view start = known.path;
  return path == start ? !start.ends_with('/') : start.ends_with('/') && path.starts_with(start);
}

} // namespace

std::span<const route> all_routes() {
  return routes;
}

const route& find_route(std::string_view method, std::string_view path, std::string& allow) {
  for (const route& known : routes) {
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

} // namespace troupe::http

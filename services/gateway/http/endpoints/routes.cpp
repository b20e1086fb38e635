#include "services/gateway/http/endpoints/routes.hpp"

#include "services/gateway/http/endpoints/endpoint.hpp"
#include "services/gateway/http/endpoints/page.hpp"
#include "services/gateway/http/generation.hpp"
#include "services/gateway/http/placement_command.hpp"
#include "services/gateway/http/trace_page.hpp"

namespace troupe::http {

namespace {

constexpr bool post = true;
constexpr bool chat = true;

template <page_function Page>
task<void> send_page(exchange& client, api& shared) {
  co_await client.send(Page(client.incoming(), shared));
}

template <bool IsChat>
task<void> post_completions(exchange& client, api& shared) {
  return generate(client, shared, IsChat);
}

constexpr route routes[] = {
    {"/cluster", get_cluster, callers::operators},
    {"/cluster/history", get_history, callers::operators},
    {"/cluster/placement", get_placement, callers::operators},
    {"/cluster/placement", post_placement, callers::operators, post, max_placement_command_bytes},
    {"/cluster/ready", get_cluster_ready, callers::anybody},
    {"/cluster/trace", post_trace, callers::operators, post, max_trace_command_bytes},
    {"/detokenize", post_detokenize, callers::clients, post},
    {"/health", send_page<get_health>, callers::anybody},
    {"/metrics", send_page<get_metrics>, callers::operators},
    {"/ready", get_ready, callers::anybody},
    {"/tokenize", post_tokenize, callers::clients, post},
    {"/tokenizer_info", send_page<get_tokenizer_info>, callers::clients},
    {"/v1/chat/completions", post_completions<chat>, callers::clients, post},
    {"/v1/completions", post_completions<!chat>, callers::clients, post},
    {"/v1/models", send_page<get_models>, callers::clients},
    {"/v1/models/", send_page<get_model>, callers::clients},
    {"/version", send_page<get_version>, callers::clients},
};

constexpr route_table table{routes};

} // namespace

const route_table& all_routes() {
  return table;
}

} // namespace troupe::http

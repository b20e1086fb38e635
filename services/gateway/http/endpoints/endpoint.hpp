// Endpoints that wait for the cluster or for text work; those that wait for nothing are in page.hpp.
#pragma once

#include "services/gateway/http/routes.hpp"

namespace troupe::http {

// All are of the type endpoint_function.
task<void> get_cluster(exchange& client, api& shared);
task<void> get_history(exchange& client, api& shared);
task<void> get_placement(exchange& client, api& shared);
task<void> post_placement(exchange& client, api& shared);
task<void> post_trace(exchange& client, api& shared);
task<void> get_ready(exchange& client, api& shared);
task<void> get_cluster_ready(exchange& client, api& shared);
task<void> post_tokenize(exchange& client, api& shared);
task<void> post_detokenize(exchange& client, api& shared);

} // namespace troupe::http

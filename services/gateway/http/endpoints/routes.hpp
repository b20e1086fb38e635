// The paths of the gateway's API.
#pragma once

#include "services/gateway/http/routes.hpp"

namespace troupe::http {

/// All paths that the gateway serves. A test compares docs/api.md with them.
const route_table& all_routes();

} // namespace troupe::http

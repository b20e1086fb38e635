// An answer to a client whose request was not read.
#pragma once

#include <string>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// The bytes of an answer that ends its connection. It has a request id of its own.
std::string bare_answer(const api& shared, const response& answer);

} // namespace troupe::http

// Wire layout of the structures in request_context.hpp: their fields, in order.
#pragma once

#include "actors/protocol/request_context.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, request_context& x) {
  return extensible(f, "request_context", x.id, x.traceparent);
}

} // namespace troupe

// How the structures of request_context.hpp lie on the wire: the fields of each, in order.
#pragma once

#include "actors/request_context.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, request_context& x) {
  return extensible(f, "request_context", x.id, x.traceparent);
}

} // namespace troupe

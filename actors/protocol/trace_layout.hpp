// Wire layout of the structures in trace_messages.hpp: their fields, in order.
#pragma once

#include "actors/protocol/trace_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, trace_command& x) {
  return extensible(f, "trace_command", x.share_ppm);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, trace_answer& x) {
  return extensible(f, "trace_answer", x.name, x.error);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, trace_receipt& x) {
  return extensible(f, "trace_receipt", x.processes);
}

} // namespace troupe

// Wire layout of the structures in expert_messages.hpp: their fields, in order.
#pragma once

#include "actors/protocol/expert_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_batch& x) {
  return extensible(f, "expert_batch", x.batch, x.micro_batch, x.layer, x.layer_version, x.num_rows,
                    x.experts, x.offsets, x.rows, x.activations, x.flow);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_result& x) {
  return extensible(f, "expert_result", x.batch, x.outputs, x.queue_ns, x.compute_ns, x.queued_rows,
                    x.received_ns, x.answered_ns);
}

} // namespace troupe

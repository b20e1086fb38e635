// Wire layout of the structures in rebalancer_messages.hpp: their fields, in order.
#pragma once

#include <caf/meta/type_name.hpp>

#include "actors/protocol/rebalancer_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, named_hosts& x) {
  return f(caf::meta::type_name("named_hosts"), x.expert, x.hosts);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, placement_command& x) {
  return extensible(f, "placement_command", x.action, x.dry_run, x.experts, x.worker, x.replicas);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, predicted_step& x) {
  return extensible(f, "predicted_step", x.step_ns, x.busiest_ns, x.messages_ppm, x.max_share_ppm);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_change& x) {
  return f(caf::meta::type_name("expert_change"), x.expert, x.from, x.to);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, placement_change& x) {
  return extensible(f, "placement_change", x.id, x.reason, x.moves, x.bytes, x.before, x.after, x.experts);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, change_progress_status& x) {
  return extensible(f, "change_progress_status", x.change, x.done, x.given_up, x.left, x.elapsed_ms);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, rebalancer_status& x) {
  return extensible(f, "rebalancer_status", x.mode, x.changes, x.pins, x.replicas, x.drained, x.imbalance_ppm,
                    x.wanted_workers);
}

} // namespace troupe

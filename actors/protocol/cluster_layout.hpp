// Wire layout of the structures in cluster_messages.hpp: their fields, in order.
#pragma once

#include <memory>

#include <caf/meta/type_name.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_address& x) {
  return extensible(f, "worker_address", x.id, x.role, x.name, x.endpoint);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, engine_progress& x) {
  return extensible(f, "engine_progress", x.steps, x.oldest_step_ms, x.step_limit_ms);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_hello& x) {
  return extensible(f, "worker_hello", x.address, x.fingerprint, x.numerics_class, x.config_id, x.term,
                    x.layer_experts, x.engine, x.of_role);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_hosts& x) {
  return f(caf::meta::type_name("expert_hosts"), x.hosts);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, layer_placement& x) {
  return f(caf::meta::type_name("layer_placement"), x.version, x.experts);
}

/// A shared layer travels as the layer itself.
template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, layer_placement_ptr& x) {
  if constexpr (Inspector::reads_state) {
    return f(const_cast<layer_placement&>(*x)); // a reading inspector takes a reference, too
  } else {
    auto layer = std::make_shared<layer_placement>();
    x = layer;
    return f(*layer);
  }
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, placement& x) {
  return f(caf::meta::type_name("placement"), x.term, x.epoch, x.layers);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, cluster_view& x) {
  return extensible(f, "cluster_view", x.experts, x.workers, x.ready, x.max_model_len);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, weight_source& x) {
  return extensible(f, "weight_source", x.worker, x.experts);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, host_order& x) {
  return extensible(f, "host_order", x.term, x.order, x.experts, x.sources);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, host_report& x) {
  return extensible(f, "host_report", x.term, x.order, x.hosted, x.error);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, lease_renewal& x) {
  return extensible(f, "lease_renewal", x.id, x.term, x.epoch, x.running, x.waiting, x.engine, x.of_role);
}

} // namespace troupe

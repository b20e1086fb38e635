// How the structures of cluster_messages.hpp lie on the wire: the fields of each, in order.
#pragma once

#include <memory>

#include <caf/meta/type_name.hpp>

#include "actors/cluster/cluster_messages.hpp"
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
typename Inspector::result_type lay_out(Inspector& f, expert_work& x) {
  return extensible(f, "expert_work", x.busy_ns, x.runs, x.rows);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, complaint& x) {
  return f(caf::meta::type_name("complaint"), x.about, x.silent_ms);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, held_place& x) {
  return f(caf::meta::type_name("held_place"), x.request, x.worker, x.num_seqs, x.kv_tokens);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_hello& x) {
  return extensible(f, "worker_hello", x.address, x.fingerprint, x.numerics_class, x.term, x.layer_experts,
                    x.max_num_seqs, x.kv_capacity_tokens, x.max_model_len, x.running, x.expert_memory_bytes,
                    x.expert_bytes, x.hosted, x.weights, x.engine, x.places);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_hosts& x) {
  return f(caf::meta::type_name("expert_hosts"), x.hosts);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, layer_placement& x) {
  return f(caf::meta::type_name("layer_placement"), x.version, x.experts);
}

/// On the wire a shared layer is the layer itself.
template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, layer_placement_ptr& x) {
  if constexpr (Inspector::reads_state) {
    return f(const_cast<layer_placement&>(*x)); // an inspector that reads takes a reference nevertheless
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
  return extensible(f, "lease_renewal", x.id, x.term, x.epoch, x.running, x.waiting, x.kv_tokens_used,
                    x.engine, x.at_experts, x.complaints, x.work);
}

} // namespace troupe

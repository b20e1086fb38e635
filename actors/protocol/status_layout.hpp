// Wire layout of the structures in status_messages.hpp: their fields, in order.
#pragma once

#include "actors/protocol/status_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_host_status& x) {
  return extensible(f, "expert_host_status", x.hosted, x.queued_rows, x.batches, x.steps, x.rows);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, attention_status& x) {
  return extensible(f, "attention_status", x.running, x.waiting, x.kv_blocks, x.kv_blocks_used, x.preemptions,
                    x.iterations, x.expert_retries, x.placement_epoch, x.kv_blocks_retained);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_status& x) {
  return extensible(f, "worker_status", x.address, x.load, x.lease_age_ms, x.hosted, x.numerics_class,
                    x.max_num_seqs, x.kv_capacity_tokens, x.max_model_len);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, scheduler_status& x) {
  return extensible(f, "scheduler_status", x.term, x.ready, x.fingerprint, x.experts, x.workers, x.queued,
                    x.assigned);
}

} // namespace troupe

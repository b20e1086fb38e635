#include "services/metrics/catalogue_entries.hpp"

namespace troupe::metrics {

namespace {

constexpr const char* of_state = "with `--state-dir`";

} // namespace

std::vector<family_spec> scheduler_entries() {
  return {
      // Requests.
      {"num_requests_waiting", gauge, "Requests that wait for a place"},
      {"num_requests_waiting_limit",
       gauge,
       "Limit of num_requests_waiting (`--max-num-queued-reqs`)",
       {},
       nullptr,
       "where it is limited"},
      {"num_requests_placed", gauge, "Requests that have a place on an attention worker"},
      {"queued_bytes", gauge, "Memory of the requests that wait"},
      {"queued_bytes_limit", gauge, "Limit of queued_bytes (`--max-queued-bytes`)"},
      {"kv_cache_reserved_tokens", gauge,
       "Tokens of all attention workers' KV caches reserved for requests with a place"},
      {"kv_cache_used_tokens", gauge, "Tokens of these caches in use, by the workers' last reports"},
      {"kv_cache_total_tokens", gauge, "Capacity of these caches in tokens"},
      {"expected_answer_tokens", gauge,
       "Expected new tokens of a request without a limit (`--admission-quantile`; meaningless at 1)"},
      {"request_queue_time_seconds",
       histogram,
       "From a request's arrival at the scheduler to its place",
       {},
       &request_seconds},
      {"scheduler_refusals_total",
       counter,
       "Requests refused by the scheduler, by reason",
       {{"reason", {"overloaded", "not_ready"}, "and the other codes of errors"}}},

      // Members of the cluster.
      {"cluster_ready", gauge, "1 when every expert has a host and there is an attention worker"},
      {"cluster_workers",
       gauge,
       "Processes in the cluster, by role",
       {{"member", {"gateway", "attention", "expert"}}}},
      {"fenced_workers_total",
       counter,
       "Workers declared dead while still connected, by reason",
       {{"reason", {"lease", "engine", "unanswered"}}}},

      // Placement of experts.
      {"experts_placed", gauge, "(layer, expert) pairs that have a host"},
      {"experts_without_host", gauge, "(layer, expert) pairs without a host: requests wait for them"},
      {"experts_without_room", gauge,
       "Pairs among these for which the expert workers' memory has no room: start another worker, or give "
       "them more memory"},
      {"expert_copies", gauge,
       "Sum of the hosts of all (layer, expert) pairs; above experts_placed: some have replicas"},
      {"placement_term", gauge, "The scheduler's term; a restarted one takes a higher"},
      {"placement_epoch", gauge, "Publications of the placement within the term"},
      {"placement_balancedness", gauge, "Mean over maximal share of the experts, averaged over the layers"},

      // The rebalancer.
      {"placement_imbalance", gauge,
       "Expected time of the busiest expert workers in a step over that of an even load; 0: not known yet"},
      {"placement_max_share", gauge,
       "Expected share of a layer's load on its busiest expert worker, averaged over layers"},
      {"placement_wanted_workers",
       gauge,
       "Number of expert workers needed by load, memory and replicas, independent of the current number",
       {},
       nullptr,
       "once it is known, after five minutes"},
      {"placement_predicted_gain", gauge, "Share of a step's time that the last plan was expected to save"},
      {"placement_moves_left", gauge, "Experts of the current change that have not reached their hosts"},
      {"placement_plans_total",
       counter,
       "Plans made by the rebalancer itself, by outcome",
       {{"result", {"carried_out", "dropped"}}}},
      {"placement_moves_total",
       counter,
       "Finished moves of experts, by outcome",
       {{"result", {"done", "given_up"}}}},
      {"placement_moved_bytes_total", counter, "Bytes of expert weights loaded for placement changes"},

      // The disk.
      {"state_directory_free_bytes",
       gauge,
       "Free bytes of the file system of the state directory",
       {},
       nullptr,
       of_state},
      {"state_directory_size_bytes", gauge, "Size of that file system", {}, nullptr, of_state},
  };
}

} // namespace troupe::metrics

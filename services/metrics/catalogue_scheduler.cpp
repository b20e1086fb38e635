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
       "What num_requests_waiting may be (`--max-num-queued-reqs`)",
       {},
       nullptr,
       "where it is limited"},
      {"num_requests_placed", gauge, "Requests that have a place on an attention worker"},
      {"queued_bytes", gauge, "Memory of the requests that wait"},
      {"queued_bytes_limit", gauge, "What queued_bytes may be (`--max-queued-bytes`)"},
      {"kv_cache_reserved_tokens", gauge,
       "Tokens of all attention workers' KV caches that are set aside for requests with a place"},
      {"kv_cache_used_tokens", gauge, "Tokens of these caches in use, as the workers have last said"},
      {"kv_cache_total_tokens", gauge, "Tokens that these caches hold"},
      {"expected_answer_tokens", gauge,
       "New tokens that a request without a limit is expected to get (`--admission-quantile`; says nothing "
       "where that is 1)"},
      {"request_queue_time_seconds",
       histogram,
       "From a request's arrival at the scheduler to its place",
       {},
       &request_seconds},
      {"scheduler_refusals_total",
       counter,
       "Requests refused by the scheduler, by reason",
       {{"reason", {"overloaded", "not_ready"}, "and the other codes of errors"}}},

      // Who is there.
      {"cluster_ready", gauge, "1 when every expert has a host and there is an attention worker"},
      {"cluster_workers",
       gauge,
       "Processes that are in the cluster, by role",
       {{"member", {"gateway", "attention", "expert"}}}},
      {"fenced_workers_total",
       counter,
       "Workers that were declared dead though their connection stood, by reason",
       {{"reason", {"lease", "engine", "unanswered"}}}},

      // Where experts are.
      {"experts_placed", gauge, "(layer, expert) pairs that have a host"},
      {"experts_without_host", gauge, "(layer, expert) pairs that nobody hosts: requests wait for them"},
      {"expert_copies", gauge,
       "Hosts of all (layer, expert) pairs together; above experts_placed: some have replicas"},
      {"placement_term", gauge, "The scheduler's term; a restarted one takes a higher"},
      {"placement_epoch", gauge, "Publications of the placement within the term"},
      {"placement_balancedness", gauge, "Mean over maximal share of the experts, averaged over the layers"},

      // The rebalancer.
      {"placement_imbalance", gauge,
       "Expected time of the busiest expert workers of a step over that of an even load; 0: not known yet"},
      {"placement_max_share", gauge,
       "Expected share of a layer's load on its busiest expert worker, averaged over layers"},
      {"placement_gain_of_one_more_worker", gauge,
       "Share of a step's time that one more expert worker would save"},
      {"placement_waste_of_one_worker", gauge, "Share of one expert worker that is not needed"},
      {"placement_predicted_gain", gauge, "Share of a step's time that the last plan was expected to save"},
      {"placement_moves_left", gauge, "Experts of the change under way that are not where they should be"},
      {"placement_plans_total",
       counter,
       "Plans that the rebalancer made by itself, by what became of them",
       {{"result", {"carried_out", "dropped"}}}},
      {"placement_moves_total",
       counter,
       "Experts whose change of hosts is over, by how it ended",
       {{"result", {"done", "given_up"}}}},
      {"placement_moved_bytes_total", counter, "Weights that were loaded for such changes"},

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

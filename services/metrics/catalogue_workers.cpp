#include "services/metrics/catalogue_entries.hpp"

namespace troupe::metrics {

std::vector<family_spec> attention_entries() {
  return {
      // Sequences.
      {"num_requests_running", gauge, "Sequences in the running batch"},
      {"num_requests_running_limit", gauge, "Limit of num_requests_running (`--max-num-seqs`)"},
      {"num_sequences_waiting", gauge, "Assigned sequences that wait for a seat or for KV blocks"},
      {"sequence_queue_time_seconds",
       histogram,
       "From a sequence's arrival at its worker to its first seat",
       {},
       &request_seconds},
      {"sequence_failures_total",
       counter,
       "Sequences given back to their session, by reason",
       {{"reason", {"engine_failed"}, "and the other codes of errors"}}},

      {"engine_sleep_state",
       gauge,
       "1 for `awake`, as engines always are: vLLM's dashboards show a server without it as down",
       {{"sleep_state", {"awake", "weights_offloaded", "discard_all"}}},
       nullptr,
       "with the prefix `vllm:`"},

      // The KV cache.
      {"kv_cache_usage_perc", gauge, "Share of the KV blocks in use; 1 is all"},
      {"kv_cache_blocks", gauge, "Number of KV blocks"},
      {"kv_cache_used_blocks", gauge, "KV blocks in use"},
      {"kv_cache_retained_blocks", gauge,
       "KV blocks not in use that are kept for prompts with the same beginning, and evicted when blocks are "
       "needed"},
      {"prefix_cache_queries_total", counter, "Tokens of sequences that started and looked for known keys"},
      {"prefix_cache_hits_total", counter,
       "Of these, tokens whose keys were known, and were not computed again"},
      {"kv_cache_capacity_tokens", gauge, "Capacity of the KV cache in tokens (`--kv-cache-memory`)"},
      {"num_preemptions_total", counter,
       "Sequences preempted: their KV blocks were taken, they are recomputed"},
      {"preempted_tokens_total", counter, "Tokens in these blocks"},

      // Batches.
      {"micro_batches_in_flight", gauge, "Micro-batches in flight at the last iteration"},
      {"computed_tokens_total", counter, "Tokens prefilled or decoded (keys and values computed)"},
      {"sampled_tokens_total", counter, "Tokens sampled"},
      {"iteration_tokens",
       histogram,
       "Tokens of a micro-batch, as vLLM counts them: those sampled, and prompts whose first token it gave",
       {},
       &token_counts,
       "",
       "iteration_tokens_total"},
      {"iteration_seconds",
       histogram,
       "A micro-batch from its start to its samples",
       {},
       &expert_batch_seconds},
      {"iteration_attention_seconds_total", counter, "Time that micro-batches spent computing attention"},
      {"iteration_expert_wait_seconds_total", counter, "Time that micro-batches spent waiting for experts"},

      // Batches to experts.
      {"expert_round_trip_seconds",
       histogram,
       "From sending an expert batch to its answer",
       {},
       &expert_batch_seconds},
      {"expert_retries_total",
       counter,
       "Expert batches whose rows went to another host, by the first host's error",
       {{"reason", {"peer_down"}, "the other codes of errors, and `other`"}}},
      {"expert_hedges_total", counter,
       "Expert batches also sent to a replica because the first host was slow"},
      {"expert_hedges_refused_total", counter,
       "Slow expert batches not sent to a replica because hedges are limited to a tenth of all batches; "
       "grows while all hosts are overloaded"},
  };
}

std::vector<family_spec> expert_entries() {
  return {
      {"expert_rows_total",
       counter,
       "Rows computed by each expert; see *Cardinality*",
       {{"layer", {}, "from 0"}, {"expert", {}, "from 0"}}},
      {"expert_layer_rows_total",
       counter,
       "Rows computed by all experts of a layer on this worker",
       {{"layer", {}, "from 0"}}},
      {"expert_queue_rows", gauge, "Waiting (row, expert) pairs"},
      {"expert_queue_rows_limit", gauge, "Limit of expert_queue_rows; beyond it batches are refused"},
      {"expert_batch_seconds",
       histogram,
       "An expert batch from its arrival to its answer",
       {},
       &expert_batch_seconds},
      {"expert_step_seconds", histogram, "One grouped GEMM over merged batches", {}, &expert_batch_seconds},
      {"expert_batches_total", counter, "Expert batches answered with rows"},
      {"expert_steps_total", counter, "Grouped GEMMs computed"},
      {"expert_refusals_total",
       counter,
       "Expert batches refused or failed, by reason",
       {{"reason", {"overloaded"}, "and the other codes of errors"}}},

      // Weights.
      {"experts_hosted", gauge, "(layer, expert) pairs whose weights are loaded"},
      {"expert_memory_bytes", gauge,
       "experts_hosted times the size of the largest expert, as `--expert-memory` counts"},
      {"expert_memory_limit_bytes",
       gauge,
       "Limit of expert_memory_bytes (`--expert-memory`, or what a memory limit leaves)",
       {},
       nullptr,
       "where it is limited"},
      {"expert_fetches_total",
       counter,
       "Attempts to fetch an expert from another worker, by outcome",
       {{"outcome", {"fetched", "refused", "busy", "lost", "damaged"}}}},
      {"expert_weights_sent_bytes_total", counter, "Bytes of expert weights sent to other expert workers"},
      {"expert_weights_received_bytes_total", counter,
       "Bytes of expert weights received from other expert workers"},
  };
}

} // namespace troupe::metrics

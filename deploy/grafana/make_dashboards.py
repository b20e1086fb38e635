#!/usr/bin/env python3
"""Writes dashboards/*.json, from which Grafana makes the dashboards of a cluster.

usage: make_dashboards.py            writes them
       make_dashboards.py --check    ends with status 1 when a file is not what this script would write

A panel is a line here; what kinds there are is in panels.py. In expressions, §J is the choice of the cluster (job).
tests/system/prometheus_test.py asks a Prometheus for every expression.
"""
import json
import pathlib
import sys

from panels import GREEN, RED, YELLOW, bars, dashboard, graph, heatmap, matrix, quantiles, stat, steps, table

FOLDER = pathlib.Path(__file__).parent / "dashboards"
ANSWERS = 'handler=~"/v1/(chat/)?completions"'
YES_NO = [{"type": "value", "options": {"1": {"text": "yes", "color": GREEN}, "0": {"text": "NO", "color": RED}}}]

OVERVIEW = dashboard(
    "overview", "overview", "Is it serving, how fast, and what is near its bound.",
    ("Now",
     stat("Serving", "Whether every expert has a host and there is an attention worker.",
          "max(troupe_cluster_ready{§J})", mappings=YES_NO),
     stat("Alerts", "Alerts of Troupe that fire. What each means: docs/runbooks.md.",
          'count(ALERTS{alertname=~"Troupe.+",alertstate="firing",§J}) or vector(0)',
          thresholds=steps((None, GREEN), (1, RED))),
     stat("Errors", "Share of the answers that are 5xx, or streams that ended with one. Objective: below 0.5 %.",
          "max(troupe:request_errors:ratio_rate5m{§J})", "percentunit",
          steps((None, GREEN), (0.005, YELLOW), (0.05, RED))),
     stat("First token, p95", "From a request's arrival to its first token. Objective as shipped: 95 % within 10 s.",
          "histogram_quantile(0.95, sum by (le) (rate(troupe_time_to_first_token_seconds_bucket{§J}[5m])))", "s",
          steps((None, GREEN), (2.5, YELLOW), (10, RED))),
     stat("Next token, p99", "Between tokens of an answer. Objective as shipped: 99 % within 0.5 s.",
          "histogram_quantile(0.99, sum by (le) (rate(troupe_inter_token_latency_seconds_bucket{§J}[5m])))", "s",
          steps((None, GREEN), (0.1, YELLOW), (0.5, RED))),
     stat("Requests/s", "Answers to completions and chat completions.",
          f"sum(rate(troupe_http_requests_total{{{ANSWERS},§J}}[5m]))", "reqps"),
     stat("Tokens/s", "New tokens that clients got.", "sum(rate(troupe_generation_tokens_total{§J}[5m]))"),
     stat("Waiting", "Requests in the scheduler's queue.", "sum(troupe_num_requests_waiting{§J})",
          thresholds=steps((None, GREEN), (1, YELLOW), (100, RED)))),
    ("Requests",
     graph("Answers by status", "Completions and chat completions.",
           {"{{status}}": f"sum by (status) (rate(troupe_http_requests_total{{{ANSWERS},§J}}[$__rate_interval]))"},
           "reqps", stacked=True),
     quantiles("First token", "From a request's arrival to a choice's first token, queue included.",
               "troupe_time_to_first_token_seconds"),
     quantiles("Next token", "Between successive tokens of a choice.", "troupe_inter_token_latency_seconds"),
     graph("Tokens", "Taken in as prompts, and given out.",
           {"prompt": "sum(rate(troupe_prompt_tokens_total{§J}[$__rate_interval]))",
            "generated": "sum(rate(troupe_generation_tokens_total{§J}[$__rate_interval]))"}, "short"),
     graph("Where requests are", "In the queue, on a worker, in its batch.",
           {"waiting": "sum(troupe_num_requests_waiting{§J})", "placed": "sum(troupe_num_requests_placed{§J})",
            "in the batch": "sum(troupe_num_requests_running{§J})"}),
     graph("Error budget: how fast it burns", "1 uses up the month's budget in a month. Pages from 14.4 (an hour) and 6 (six hours).",
           {"errors": "troupe:request_errors:ratio_rate1h{§J} / 0.005",
            "slow first tokens": "troupe:slow_first_tokens:ratio_rate1h{§J} / 0.05",
            "slow tokens": "troupe:slow_tokens:ratio_rate1h{§J} / 0.01"},
           thresholds=steps((None, GREEN), (6, YELLOW), (14.4, RED)))),
    ("What is near its bound",
     bars("Share in use", "Of the memory for KV, of seats in the batches, of the queue, of connections, of the memory for texts.",
          {"KV cache": "max(troupe:kv_cache:usage_ratio{§J})",
           "seats": "sum(troupe_num_requests_running{§J}) / sum(troupe_num_requests_running_limit{§J})",
           "queue": "max(troupe_queued_bytes{§J} / troupe_queued_bytes_limit{§J})",
           "connections": "max(troupe_http_connections{§J} / troupe_http_connections_limit{§J})",
           "texts": "max(troupe_text_bytes{§J} / troupe_text_bytes_limit{§J})",
           "file descriptors": "max(process_open_fds{§J} / process_max_fds{§J})"}),
     graph("Load of the experts' workers", "Busiest over mean, 1 is even: as measured, and as the planner expects.",
           {"measured": "max(troupe:expert_load:imbalance_rate5m{§J})", "expected": "max(troupe_placement_imbalance{§J})"}),
     graph("Processes", "In the cluster, by role.", {"{{member}}": "sum by (member) (troupe_cluster_workers{§J})"})))

REQUESTS = dashboard(
    "requests", "requests", "What clients ask and get, and where the time of a request goes.",
    ("Answers",
     graph("By route and status", "All answers of the gateways.",
           {"{{handler}} {{status}}": "sum by (handler, status) (rate(troupe_http_requests_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Choices by their end", "stop: the model's or a client's stop; length: the most that was asked for.",
           {"{{finished_reason}}": "sum by (finished_reason) (rate(troupe_request_success_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Refused or failed", "By the cluster. overloaded: the queue was full, and the client got a 429.",
           {"{{reason}}": "sum by (reason) (rate(troupe_admission_rejections_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Streams that failed", "Answers whose status was 200 and that ended with an error.",
           "sum(rate(troupe_http_streams_failed_total{§J}[$__rate_interval]))", "reqps"),
     graph("Clients that left", "left: closed the connection; too_slow: did not read.",
           {"{{how}}": "sum by (how) (rate(troupe_http_clients_gone_total{§J}[$__rate_interval]))"}, "reqps")),
    ("Time",
     heatmap("First token", "From a request's arrival to a choice's first token.", "troupe_time_to_first_token_seconds"),
     heatmap("Next token", "Between successive tokens of a choice.", "troupe_inter_token_latency_seconds"),
     quantiles("Whole requests", "From a request's arrival to a choice's end.", "troupe_e2e_request_latency_seconds"),
     quantiles("In the queue", "From a request's arrival at the scheduler to its place.", "troupe_request_queue_time_seconds"),
     quantiles("Prefill and decode", "From a request's place to a choice's last token.", "troupe_request_inference_time_seconds"),
     quantiles("Prefill", "From a request's place to a choice's first token.", "troupe_request_prefill_time_seconds"),
     quantiles("Decode", "From a choice's first token to its last.", "troupe_request_decode_time_seconds"),
     quantiles("Tokenizing", "To tokenize one text.", "troupe_tokenize_seconds"),
     quantiles("Chat templates", "To render one conversation, with the wait for a process.", "troupe_chat_template_seconds"),
     quantiles("Mean time per token", "Of a choice, after its first.", "troupe_request_time_per_output_token_seconds")),
    ("Admission",
     graph("Waiting", "Requests in the scheduler's queue, and what may be there (--max-num-queued-reqs).",
           {"waiting": "sum(troupe_num_requests_waiting{§J})", "limit": "max(troupe_num_requests_waiting_limit{§J})"}, limit="limit"),
     graph("Refused by the scheduler", "overloaded: the queue is full, or a place would come later than --max-queue-wait. "
           "deadline_exceeded: it has waited so long after all.",
           {"{{reason}}": "sum by (reason) (rate(troupe_scheduler_refusals_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Memory for KV", "Tokens of all caches: set aside for requests with a place, in use, and what there is. Much set aside and "
           "little in use while requests wait: lower --admission-quantile.",
           {"set aside": "sum(troupe_kv_cache_reserved_tokens{§J})", "in use": "sum(troupe_kv_cache_used_tokens{§J})",
            "limit": "sum(troupe_kv_cache_total_tokens{§J})"}, limit="limit"),
     graph("Likely length of answers", "New tokens that room is set aside for where a request says nothing, and what answers have had on average.",
           {"expected": "max(troupe_expected_answer_tokens{§J})",
            "measured, mean": "sum(rate(troupe_request_generation_tokens_sum{§J}[$__rate_interval])) "
                              "/ sum(rate(troupe_request_generation_tokens_count{§J}[$__rate_interval]))"}),
     graph("Computed again", "Tokens whose KV was taken back (preemption), as a share of those computed. More than some percent: raise "
           "--admission-quantile.",
           "sum(rate(troupe_preempted_tokens_total{§J}[$__rate_interval])) / sum(rate(troupe_computed_tokens_total{§J}[$__rate_interval]))",
           "percentunit"),
     graph("Sequences without a seat", "Assigned, and waiting for a seat or for KV blocks on their worker.",
           {"{{instance}}": "troupe_num_sequences_waiting{§J}"})),
    ("Sizes",
     heatmap("Tokens of prompts", "", "troupe_request_prompt_tokens", "short"),
     heatmap("New tokens of choices", "", "troupe_request_generation_tokens", "short"),
     quantiles("New tokens of the longest choice", "Of each request.", "troupe_request_max_num_generation_tokens", "short")),
    ("Bounds",
     graph("Connections", "Open, and what may be.",
           {"{{instance}}": "troupe_http_connections{§J}", "limit": "max(troupe_http_connections_limit{§J})"}, limit="limit"),
     graph("Queue", "Memory of waiting requests.",
           {"{{instance}}": "troupe_queued_bytes{§J}", "limit": "max(troupe_queued_bytes_limit{§J})"}, "bytes", limit="limit"),
     graph("Texts", "Bytes of requests that are tokenized or rendered.",
           {"{{instance}}": "troupe_text_bytes{§J}", "limit": "max(troupe_text_bytes_limit{§J})"}, "bytes", limit="limit"),
     graph("Turned away", "Connections and requests, before they were looked at.",
           {"connections: {{reason}}": "sum by (reason) (rate(troupe_http_connections_refused_total{§J}[$__rate_interval]))",
            "requests: {{reason}}": "sum by (reason) (rate(troupe_http_requests_refused_total{§J}[$__rate_interval]))",
            "idle ones closed": "sum(rate(troupe_http_idle_connections_closed_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Work on texts", "Tokenizing and rendering: waiting and running.",
           {"{{state}}": "sum by (state) (troupe_text_jobs{§J})"}),
     graph("Work on texts, by its end", "timed_out: no thread or process was free, or a template took too long.",
           {"{{how}}": "sum by (how) (rate(troupe_text_jobs_ended_total{§J}[$__rate_interval]))"}, "reqps")),
    ("API keys (where there are some)",
     graph("Requests", "By key.", {"{{key}}": "sum by (key) (rate(troupe_key_requests_total{§J}[$__rate_interval]))"}, "reqps"),
     graph("Tokens", "By key and kind.",
           {"{{key}} {{kind}}": "sum by (key, kind) (rate(troupe_key_tokens_total{§J}[$__rate_interval]))"}),
     graph("Beyond a limit", "By key, and by which limit.",
           {"{{key}} {{reason}}": "sum by (key, reason) (rate(troupe_key_rejections_total{§J}[$__rate_interval]))"}, "reqps")))

RELATIVE = steps((None, "transparent"), (0.01, "dark-blue"), (0.5, "blue"), (0.9, GREEN), (1.3, YELLOW), (2, "orange"), (4, RED))
EXPERTS = dashboard(
    "experts", "experts", "Which experts are used, who has them, and whether the load is even.",
    ("Now",
     stat("Without a host", "(layer, expert) pairs that nobody hosts: requests wait for them.",
          "max(troupe_experts_without_host{§J})", thresholds=steps((None, GREEN), (1, RED)), width=4),
     stat("Hosts of an expert", "Mean number; above 1, some experts have replicas.",
          "max(troupe_expert_copies{§J} / troupe_experts_placed{§J})", width=4),
     stat("Imbalance, measured", "Rows of the busiest expert worker over the mean. 1 is even.",
          "max(troupe:expert_load:imbalance_rate5m{§J})", thresholds=steps((None, GREEN), (1.25, YELLOW), (1.5, RED)), width=4),
     stat("Imbalance, expected", "The planner's: time of the busiest of a step over that of an even load. 0: not known yet.",
          "max(troupe_placement_imbalance{§J})", thresholds=steps((None, GREEN), (1.25, YELLOW), (1.5, RED)), width=4),
     stat("On their way", "Experts of the change under way that are not where they should be.",
          "max(troupe_placement_moves_left{§J})", width=4),
     stat("Expert workers wanted", "By load, memory and replicas, whatever number there is; what autoscaling goes by.",
          "max(troupe_placement_wanted_workers{§J})", width=4)),
    ("Which experts are used",
     matrix("Rows of each expert over the mean of its layer, the last 5 minutes",
            "A row a layer, a column an expert. 1 is the mean; empty: not used. All hosts of an expert together. A process that "
            "has more than 4,096 pairs shows the busiest of each layer only.",
            "max by (layer, expert) (troupe:expert_rows:relative_rate5m{§J})", "layer", "expert", "short", RELATIVE)),
    ("Who computes them",
     graph("Rows by worker", "Computed by each expert worker.",
           {"{{instance}}": "sum by (instance) (rate(troupe_expert_layer_rows_total{§J}[$__rate_interval]))"}),
     graph("Imbalance", "Busiest over mean, 1 is even: as measured, and as the planner expects.",
           {"measured": "troupe:expert_load:imbalance_rate5m{§J}", "expected": "max(troupe_placement_imbalance{§J})"}),
     graph("Hosted", "(layer, expert) pairs whose weights a worker holds.", {"{{instance}}": "troupe_experts_hosted{§J}"}),
     graph("Rows that wait", "And what may wait; beyond it batches are refused and go to a replica.",
           {"{{instance}}": "troupe_expert_queue_rows{§J}", "limit": "max(troupe_expert_queue_rows_limit{§J})"}, limit="limit"),
     quantiles("A batch", "From its arrival at an expert worker to its answer.", "troupe_expert_batch_seconds"),
     quantiles("A step", "One grouped GEMM over merged batches.", "troupe_expert_step_seconds"),
     graph("Batches of a step", "How many batches of attention workers are merged into one grouped GEMM.",
           {"{{instance}}": "sum by (instance) (rate(troupe_expert_batches_total{§J}[$__rate_interval])) "
                            "/ sum by (instance) (rate(troupe_expert_steps_total{§J}[$__rate_interval]))"}),
     graph("Refused batches", "By reason.",
           {"{{reason}}": "sum by (reason) (rate(troupe_expert_refusals_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Without room", "Experts that no worker has room for: the others are served, requests for these wait.",
           {"experts": "max(troupe_experts_without_room{§J})"}),
     graph("Memory of weights", "And `--expert-memory`, where there is one.",
           {"{{instance}}": "troupe_expert_memory_bytes{§J}", "limit": "max(troupe_expert_memory_limit_bytes{§J})"}, "bytes",
           limit="limit")),
    ("Moves",
     graph("Moves", "Experts whose change of hosts is over.",
           {"{{result}}": "sum by (result) (increase(troupe_placement_moves_total{§J}[$__rate_interval]))"}),
     graph("Plans", "That the rebalancer made by itself.",
           {"{{result}}": "sum by (result) (increase(troupe_placement_plans_total{§J}[$__rate_interval]))"}),
     graph("Promised gain", "Share of a step's time that the last plan was expected to save.",
           {"last plan": "max(troupe_placement_predicted_gain{§J})"}, "percentunit"),
     graph("Expert workers", "That there should be, and that there are.",
           {"wanted": "max(troupe_placement_wanted_workers{§J})", "there": "count(troupe_experts_hosted{§J})"}),
     graph("Weights that were loaded", "For moves; sent to and received from other workers.",
           {"for moves": "sum(rate(troupe_placement_moved_bytes_total{§J}[$__rate_interval]))",
            "sent": "sum(rate(troupe_expert_weights_sent_bytes_total{§J}[$__rate_interval]))",
            "received": "sum(rate(troupe_expert_weights_received_bytes_total{§J}[$__rate_interval]))"}, "Bps"),
     graph("Attempts to get weights from workers", "By their end.",
           {"{{outcome}}": "sum by (outcome) (rate(troupe_expert_fetches_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Placement", "Balancedness: mean over maximal share of the experts; share of a layer's load on its busiest worker.",
           {"balancedness": "max(troupe_placement_balancedness{§J})", "busiest share": "max(troupe_placement_max_share{§J})"})))

ROLES = 'role=~"gateway|scheduler|attention|expert"'
WORKERS = dashboard(
    "workers", "workers and transport", "Each process: its resources, its engine, and its way to the others.",
    ("Processes",
     table("What runs", "A row a process.", "troupe_build_info{§J}", ["instance", "role", "version", "revision", "compiler", "numerics"],
           width=16),
     graph("Answers scrapes", "1: yes.", {"{{role}} {{instance}}": f"up{{{ROLES},§J}}"}, width=8),
     graph("CPU", "Processors in use.", {"{{instance}}": "rate(process_cpu_seconds_total{§J}[$__rate_interval])"}),
     graph("Memory", "In RAM; mapped weights among it.", {"{{instance}}": "process_resident_memory_bytes{§J}"}, "bytes"),
     graph("Address space", "", {"{{instance}}": "process_virtual_memory_bytes{§J}"}, "bytes"),
     graph("Loading", "Bytes of weights that are packed or loaded, and of how many.",
           {"{{instance}}": "troupe_weights_loaded_bytes{§J}", "of {{instance}}": "troupe_weights_to_load_bytes{§J}"}, "bytes"),
     graph("File descriptors", "Share of what the process may open.",
           {"{{instance}}": "process_open_fds{§J} / process_max_fds{§J}"}, "percentunit"),
     graph("Threads", "", {"{{instance}}": "process_threads{§J}"}),
     graph("Age", "Since the process started: a line that falls to 0 is a restart.",
           {"{{instance}}": "time() - process_start_time_seconds{§J}"}, "s")),
    ("Attention workers",
     graph("Sequences", "In the batch, waiting for a seat or KV blocks, and what may run.",
           {"running {{instance}}": "troupe_num_requests_running{§J}", "waiting {{instance}}": "troupe_num_sequences_waiting{§J}",
            "limit": "max(troupe_num_requests_running_limit{§J})"}, limit="limit"),
     graph("KV cache", "Share in use.", {"{{instance}}": "troupe_kv_cache_usage_perc{§J}"}, "percentunit"),
     graph("KV blocks", "In use, and kept for later prompts while no other needs the room.",
           {"in use": "sum(troupe_kv_cache_used_blocks{§J})", "retained": "sum(troupe_kv_cache_retained_blocks{§J})",
            "limit": "sum(troupe_kv_cache_blocks{§J})"}, limit="limit"),
     graph("Prefix hits", "Share of the tokens of starting sequences whose keys their worker had.",
           {"{{instance}}": "rate(troupe_prefix_cache_hits_total{§J}[$__rate_interval]) "
                            "/ (rate(troupe_prefix_cache_queries_total{§J}[$__rate_interval]) > 0)"}, "percentunit"),
     graph("Tokens that fit", "Into the KV cache of each worker (--kv-cache-memory).",
           {"{{instance}}": "troupe_kv_cache_capacity_tokens{§J}"}),
     graph("Preemptions", "Sequences whose KV blocks were taken: they are computed again.",
           {"{{instance}}": "rate(troupe_num_preemptions_total{§J}[$__rate_interval])"}, "ops"),
     graph("Tokens", "Computed and sampled.",
           {"computed": "sum(rate(troupe_computed_tokens_total{§J}[$__rate_interval]))",
            "sampled": "sum(rate(troupe_sampled_tokens_total{§J}[$__rate_interval]))"}),
     graph("Where an iteration's time goes", "Computing attention, waiting for experts.",
           {"attention": "sum(rate(troupe_iteration_attention_seconds_total{§J}[$__rate_interval]))",
            "experts": "sum(rate(troupe_iteration_expert_wait_seconds_total{§J}[$__rate_interval]))"}, "s", stacked=True),
     quantiles("An iteration", "A micro-batch from its start to its samples.", "troupe_iteration_seconds"),
     quantiles("Tokens of an iteration", "", "troupe_iteration_tokens", "short"),
     graph("Micro-batches in flight", "", {"{{instance}}": "troupe_micro_batches_in_flight{§J}"}),
     quantiles("Wait for a seat", "From a sequence's arrival at its worker to its first seat.", "troupe_sequence_queue_time_seconds")),
    ("Trouble",
     quantiles("Way to the experts", "From sending an expert batch to its answer.", "troupe_expert_round_trip_seconds"),
     graph("Batches that went elsewhere", "Retries, by what was wrong with the first host.",
           {"{{reason}}": "sum by (reason) (rate(troupe_expert_retries_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Hedges", "Batches sent to a replica as well, because the first host was slow; and those that were as slow and were not sent "
           "again: hedges are at most a tenth of all batches. Refused ones all the time: all hosts are overloaded.",
           {"sent": "sum(rate(troupe_expert_hedges_total{§J}[$__rate_interval]))",
            "refused": "sum(rate(troupe_expert_hedges_refused_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Sequences given back", "To their session, which goes on elsewhere.",
           {"{{reason}}": "sum by (reason) (rate(troupe_sequence_failures_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Oldest step of an engine", "Above the limit the worker is fenced.",
           {"{{instance}} {{engine}}": "troupe_engine_step_age_seconds{§J}", "limit": "min(troupe_engine_step_limit_seconds{§J} > 0)"}, "s", limit="limit"),
     graph("Fenced workers", "Declared dead though their connection stood.",
           {"{{reason}}": "sum by (reason) (increase(troupe_fenced_workers_total{§J}[$__rate_interval]))"}),
     graph("Terms", "Of the scheduler; a step is a new scheduler.",
           {"term": "max(troupe_placement_term{§J})", "publications": "max(troupe_placement_epoch{§J})"})),
    ("Transport",
     graph("Sent", "", {"{{instance}}": "rate(troupe_transport_bytes_sent_total{§J}[$__rate_interval])"}, "Bps"),
     graph("Received", "", {"{{instance}}": "rate(troupe_transport_bytes_received_total{§J}[$__rate_interval])"}, "Bps"),
     graph("Messages", "Sent and received.",
           {"sent {{instance}}": "rate(troupe_transport_messages_sent_total{§J}[$__rate_interval])",
            "received {{instance}}": "rate(troupe_transport_messages_received_total{§J}[$__rate_interval])"}, "ops"),
     graph("Queue of the urgent lane", "Bytes of requests, rows and tokens that peers have been sent and have not handled; the limit is for "
           "one peer. A line that stays up: a peer does not keep up.",
           {"{{instance}}": 'troupe_transport_unacknowledged_bytes{lane="urgent",§J}',
            "limit": "max(troupe_transport_unacknowledged_bytes_limit{§J})"}, "bytes", limit="limit"),
     graph("Queue of the bulk lane", "The same of weights, reports and status, which everything else overtakes.",
           {"{{instance}}": 'troupe_transport_unacknowledged_bytes{lane="bulk",§J}',
            "limit": "max(troupe_transport_unacknowledged_bytes_limit{§J})"}, "bytes", limit="limit"),
     graph("Requests without an answer", "", {"{{instance}}": "troupe_transport_pending_requests{§J}"}),
     graph("Round trip to the slowest peer", "Of each role, as the kernel measures it.",
           {"{{instance}} to {{peer}}": "troupe_transport_slowest_round_trip_seconds{§J} > 0"}, "s"),
     graph("Round trips, mean", "Over the peers of a role, from all processes of a role. Far below the slowest: one peer is far away or busy.",
           {"{{role}} to {{peer}}": "avg by (role, peer) (troupe_transport_mean_round_trip_seconds{§J} > 0)"}, "s"),
     graph("Peers", "Connected, and lost.",
           {"{{instance}}": "troupe_transport_peers{§J}",
            "lost {{instance}}": "increase(troupe_transport_peers_lost_total{§J}[$__rate_interval])"}),
     graph("Refused and stray messages", "Refused: a window was full, or a message too large. Stray: from fenced peers or strangers.",
           {"refused {{instance}}": "rate(troupe_transport_messages_refused_total{§J}[$__rate_interval])",
            "stray {{instance}}": "rate(troupe_transport_stray_messages_total{§J}[$__rate_interval])"}, "ops"),
     graph("Messages of other releases", "Withheld: the peer's release does not know them. Unknown: ours does not, which is a defect.",
           {"withheld {{instance}}": "rate(troupe_transport_messages_withheld_total{§J}[$__rate_interval])",
            "unknown {{instance}}": "rate(troupe_transport_messages_unknown_total{§J}[$__rate_interval])"}, "ops"),
     graph("Wake-ups", "Of the thread of the network.",
           {"{{instance}}": "rate(troupe_transport_wake_ups_total{§J}[$__rate_interval])"}, "ops")),
    ("Files",
     graph("Disk of the state directory", "Free and whole.",
           {"free {{instance}}": "troupe_state_directory_free_bytes{§J}", "size {{instance}}": "troupe_state_directory_size_bytes{§J}"}, "bytes"),
     graph("Certificates end in", "Where TLS is used.", {"{{instance}}": "troupe_tls_certificate_not_after_seconds{§J} - time()"}, "s"),
     graph("Handshakes that failed", "Where TLS is used, by reason.",
           {"{{reason}}": "sum by (reason) (rate(troupe_tls_handshake_failures_total{§J}[$__rate_interval]))"}, "ops"),
     graph("Last reading of files while serving", "Age of the last good one.",
           {"{{instance}}": "time() - troupe_last_reload_success_timestamp_seconds{§J}"}, "s"),
     graph("Files were read well", "0: the last reading failed, and the ones before are in use.",
           {"{{instance}}": "troupe_last_reload_successful{§J}"})))

DASHBOARDS = {"overview": OVERVIEW, "requests": REQUESTS, "experts": EXPERTS, "workers": WORKERS}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    wanted = {FOLDER / f"{name}.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n"
              for name, content in DASHBOARDS.items()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in FOLDER.glob("*.json") if path not in wanted]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path} is not what make_dashboards.py writes: run it")
        sys.exit(1 if stale else 0)
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


if __name__ == "__main__":
    main()

#include "services/options/role_options.hpp"

#include <algorithm>
#include <filesystem>

#include "services/options/device_choice.hpp"
#include "services/options/network_address.hpp"
#include "services/options/processors.hpp"

namespace troupe {

namespace {

/// An origin as browsers send it in the Origin header: "https://example.com", with a port where it is not the
/// scheme's, in lower case; or "*" for all, or "null" for pages that were opened as files.
std::string read_origin(const std::string& entry, const std::string& source) {
  std::string origin = entry;
  std::transform(origin.begin(), origin.end(), origin.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  auto scheme_end = origin.find("://");
  bool is_url = scheme_end != std::string::npos && scheme_end > 0 && scheme_end + 3 < origin.size()
                && origin.find_first_of("/?# \t\r\n*\"", scheme_end + 3) == std::string::npos;
  if (origin != "*" && origin != "null" && !is_url) {
    throw option_error(source + ": '" + entry
                       + "' is no origin; write https://example.com or http://localhost:3000, or * for all");
  }
  return origin;
}

std::string read_proxy(const std::string& entry, const std::string& source) {
  address_ranges({entry}, source); // says what is wrong
  return entry;
}

/// A name or an address without a port, in lower case, and without the brackets of an IPv6 address.
std::string read_allowed_host(const std::string& entry, const std::string& source) {
  std::string host = without_brackets(entry);
  std::transform(host.begin(), host.end(), host.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  const bool is_name = !host.empty() && host.find_first_of("/:@ \t*\"") == std::string::npos;
  if (host != "*" && !is_name && !parse_network_address(host)) {
    throw option_error(
        source + ": '" + entry
        + "' is no host; write example.com or 192.0.2.1, without scheme and port, or * for all");
  }
  return host;
}

/// "HOST:PORT", with a port to dial.
std::string read_endpoint(const std::string& entry, const std::string& source) {
  if (parse_host_port(entry, source).port == 0) {
    throw option_error(source + ": '" + entry + "' has port 0, which nobody can dial");
  }
  return entry;
}

} // namespace

void model_options::declare(option_parser& parser) {
  parser.text("served-model-name", "NAME",
              "the model's name in the API and in metrics; default: the folder's name", &served_model_name);
  parser.choice("dtype", {"auto", "float32", "bfloat16"},
                "type of weights and activations; auto: the checkpoint's", &dtype);
  parser.choice("expert-quant", {"auto", "none", "int8", "int4"},
                "weight-only quantization of experts; auto: as packed weights are, none for a checkpoint",
                &expert_quant);
  parser.choice("int4-group", {"32", "64", "channel"},
                "weights that share a scale where --expert-quant is int4", &int4_group);
  parser.choice(
      "dense-quant", {"auto", "none", "int8", "int4"},
      "quantization of attention, LM head, dense and shared MLPs (embeddings: int8); auto: likewise",
      &dense_quant);
  parser.choice("activation-quant", {"none", "int8"}, "quantization of rows that enter quantized weights",
                &activation_quant);
  parser.choice("kv-cache-dtype", {"auto", "int8"},
                "type of the KV cache; auto: that of the activations; int8: half of bfloat16's memory",
                &kv_cache_dtype);
  parser.choice(
      "weight-coding", {"auto", "none", "exponents"},
      "how matrices that stay in bfloat16 are kept: with their exponents coded they take a quarter less "
      "memory, without loss; auto: as --kernel-plan has it",
      &weight_coding);
  parser.text(
      "weights-cache", "DIR",
      "pack the weights into this folder once and map them from there; default: convert at every start",
      &weights_cache);
  parser.choice(
      "weights-memory", {"auto", "mapped", "copied"},
      "use packed weights where the file is mapped, or copy them into huge pages at start; auto: as "
      "--kernel-plan has it, mapped by default",
      &weights_memory);
  parser.text("device", "auto|cpu|cuda[:N]",
              "where to compute; auto: on a GPU where this build and machine have one, otherwise on the CPU",
              &device);
  parser.choice("cpu-isa", {"auto", "portable", "avx2", "avx512", "avx512_bf16", "amx"},
                "instruction set of the CPU kernels; all give the same bits", &cpu_isa);
  parser.text(
      "kernel-plan", "auto|default|FILE",
      "which kernels compute what, without changing an answer; auto: the fastest as measured once at "
      "start, in 2 s at most, and kept in --weights-cache or the user's cache folder; default: a table for "
      "the instruction set; FILE: as `troupe tune` writes it",
      &kernel_plan);
  parser.number("threads",
                "compute threads of this process; 0: one per processor, within the cgroup's CPU quota",
                &threads, 0, 1024);
  parser.text(
      "cores", "LIST|any|auto",
      "processors that the compute threads are pinned to, such as 0-3,8; any: none; auto: as `any`, but "
      "pinned when `troupe up` computes on all processors that it may run on",
      &cores);
  parser.number("max-model-len", "longest prompt plus answer in tokens; 0: what the model was made for",
                &max_model_len, 0, 1U << 24);
}

std::string model_options::model_name() const {
  if (!served_model_name.empty()) {
    return served_model_name;
  }
  std::filesystem::path folder = std::filesystem::absolute(model_dir).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

uint32_t model_options::num_threads() const {
  if (threads != 0) {
    return threads;
  }
  auto listed = cores_list();
  return listed.empty() ? available_processors() : static_cast<uint32_t>(listed.size());
}

std::vector<int> model_options::cores_list() const {
  if (cores == "auto" || cores == "any") {
    return {};
  }
  return parse_processors(cores, "--cores");
}

void model_options::check() const {
  auto listed = cores_list();
  if (!listed.empty() && threads != 0 && threads != listed.size()) {
    throw option_error("--cores: '" + cores + "' is " + std::to_string(listed.size())
                       + (listed.size() == 1 ? " processor" : " processors") + ", and --threads asks for "
                       + std::to_string(threads));
  }
  parse_device(device);
}

void gateway_options::declare(option_parser& parser) {
  parser.text("host", "HOST",
              "address or name that the REST API listens on; loopback unless you mean the network", &host);
  parser.number("port", "port of the REST API; 0: any free one, printed at start", &port, 0, 65535);
  parser.text("tls-cert-file", "FILE",
              "speak TLS on the API's port (not on --management-port), with this certificate: PEM, those "
              "between it and the root behind it; read again at SIGHUP",
              &tls_cert_file);
  parser.text("tls-key-file", "FILE", "private key of --tls-cert-file: PEM, not readable by other users",
              &tls_key_file);
  parser.text(
      "api-key-file", "FILE",
      "accept only requests with one of these keys, one a line: KEY or NAME KEY; read again at SIGHUP",
      &api_key_file);
  parser.text("key-limits", "FILE",
              "JSON with rates, concurrency and weights of these keys; read again at SIGHUP",
              &key_limits_file);
  parser.number("reload-interval",
                "seconds between two looks whether one of the files of --tls-cert-file, --tls-key-file, "
                "--api-key-file and --key-limits has changed; then all is done that SIGHUP does; 0: at "
                "SIGHUP alone",
                &reload_interval_s, 0, 86400);
  parser.text("chat-template", "FILE", "Jinja chat template to use instead of the model's",
              &chat_template_file);
  parser.text("metrics-prefix", "PREFIX", "prefix of metric names; 'vllm:' makes vLLM's dashboards work",
              &metrics_prefix);
  parser.text("access-log", "FILE|-|off",
              "where one line for each HTTP request goes: a file, opened anew at SIGHUP, or stderr; those of "
              "probes and scrapes that went well are at level debug",
              &access_log);
  parser.text("otlp-endpoint", "URL",
              "send a span for each request for generated text to this collector of OpenTelemetry, such as "
              "http://127.0.0.1:4318 (OTLP over HTTP with JSON)",
              &otlp_endpoint);
  parser.toggle("trust-request-chat-template",
                "let requests bring a chat template of their own (`chat_template`)",
                &trust_request_chat_template);
  parser.number(
      "text-threads",
      "threads that tokenize prompts and wait for chat templates; of several one is kept for short requests",
      &text_threads, 1, 64);
  parser.number("template-processes", "processes that render chat templates, at most; they start when needed",
                &template_processes, 1, 64);
  parser.number(
      "max-connections",
      "open HTTP connections; idle ones are closed for new ones, and when none is idle those are told 503",
      &max_connections, 1, 65536);
  parser.number(
      "max-connections-per-peer",
      "open HTTP connections of one address (IPv6: network of 64 bits); further ones are told 429; 0: "
      "no limit",
      &max_connections_per_peer, 0, 65536);
  parser.list("trusted-proxies", "ADDRESS",
              "proxies, by address or network such as 10.0.0.0/8: their connections are not limited by "
              "--max-connections-per-peer, but requests in progress of each client that they name in "
              "X-Forwarded-For are; may be given more than once",
              &trusted_proxies, read_proxy);
  parser.list(
      "allowed-hosts", "HOST",
      "answer requests for these hosts and loopback names alone; without it, a server that listens on "
      "loopback and asks for no key answers loopback names alone; *: all; may be given more than once",
      &allowed_hosts, read_allowed_host);
  parser.text("management-host", "HOST", "address or name that --management-port listens on",
              &management_host);
  parser.number("management-port",
                "port of /health, /ready, /metrics and /version that answers also when the API has no "
                "connection left; 0: none",
                &management_port, 0, 65535);
  parser.number("io-threads", "threads that read requests and write answers", &io_threads, 1, 64);
  parser.number("lame-duck",
                "seconds for which a gateway that gets SIGTERM serves on while /ready says no; none after "
                "SIGINT",
                &lame_duck, 0, 3600);
  parser.number("drain-timeout", "seconds that running requests then have to end", &drain_timeout, 0, 86400);
  parser.bytes("max-response-bytes",
               "size of an answer that does not stream, such as 64M; requests that could have a larger one "
               "are refused with 400",
               &max_response_bytes);
  parser.number("sse-ping-interval",
                "seconds without a token after which a stream gets a comment, so that proxies do not cut it; "
                "0: never, and streams begin with their first token",
                &sse_ping_interval, 0, 3600);
  parser.list(
      "allowed-origins", "ORIGIN",
      "let pages of this origin, such as https://example.com, use the API from a browser (CORS); *: any "
      "origin; may be given more than once",
      &allowed_origins, read_origin);
}

std::string gateway_options::url(uint16_t bound_port) const {
  return (tls_cert_file.empty() ? "http://" : "https://") + host_port_text(host, bound_port);
}

void attention_options::declare(option_parser& parser) {
  parser.number("max-num-seqs", "sequences that run at once on an attention worker", &max_num_seqs, 1, 65536);
  parser.number("max-num-batched-tokens",
                "rows of one iteration; prefill is cut into chunks of at most so many",
                &max_num_batched_tokens, 16, 65536);
  parser.number("micro-batches", "micro-batches in flight at most", &micro_batches, 1, 16);
  parser.bytes("kv-cache-memory", "memory of the KV cache", &kv_cache_memory);
  parser.choice(
      "gpu-steps", {"graphs", "kernels"},
      "how decode steps run on a GPU: graphs records the kernels of a step once for each shape of batch (up "
      "to 64 sequences) and replays them; kernels launches them one by one, so that traces have the router's "
      "time. No effect on a CPU",
      &gpu_steps);
}

void expert_options::declare(option_parser& parser, bool has_peers) {
  parser.bytes(
      "expert-memory",
      "memory for expert weights on an expert worker; 0: as much as needed, on a GPU what it has left",
      &expert_memory);
  parser.bytes(
      "gpu-expert-memory",
      "GPU memory for expert weights. Where all experts of the model take more, an expert worker keeps those "
      "that it holds in page-locked memory of the host and uses this much GPU memory as a cache, into which "
      "experts are copied when rows come for them. 0: all that it holds lie in GPU memory. No effect on a "
      "CPU",
      &gpu_expert_memory);
  parser.number("expert-linger-us", "microseconds that a lone expert batch waits for others of its layer",
                &linger_us, 0, 100000);
  if (has_peers) {
    parser.choice(
        "weights-from", {"files", "peers", "auto"},
        "where an expert worker gets the weights that it is ordered to hold: its model folder; another "
        "expert worker that holds them, or the folder where none can give them; auto: peers where the "
        "folder has no weights. A folder for peers needs config.json and nothing else: dtype and "
        "quantization are then the cluster's",
        &weights_from);
  }
}

void scheduler_options::declare(option_parser& parser, expert_worker_count count, bool can_wait) {
  parser.bytes("max-queued-bytes",
               "memory of the prompts that may wait for a place, such as 64M; more are refused with 429",
               &max_queued_bytes);
  parser.number("max-num-queued-reqs",
                "requests that may wait for a place; 0: as many as --max-queued-bytes allows",
                &max_num_queued_reqs, 0, 1U << 20);
  parser.number(
      "max-queue-wait",
      "seconds that a request may wait for a place: one that would wait longer is refused with 429, "
      "one that has with 503; 0: as long as its client waits",
      &max_queue_wait, 0, 600);
  parser.real("admission-quantile",
              "share of the answers that the memory set aside for one should be enough for, by what answers "
              "have been like; a worker that runs out of memory computes a request again later; 1: as many "
              "tokens as a request may have",
              &admission_quantile, 0.05, 1);
  parser.number("replicas", "hosts of each expert, where there are as many expert workers", &replicas, 1, 64);
  if (count != expert_worker_count::fixed) {
    parser.number("expert-workers",
                  count == expert_worker_count::started
                      ? "expert worker processes; the first placement waits for all of them"
                      : "wait for so many expert workers before the first placement",
                  &expert_workers, 1, 4096);
  }
  parser.toggle("allow-inexact", "let workers whose results may differ in the last bits replace one another",
                &allow_inexact);
  parser.text(
      "state-dir", "DIR",
      "where term, placement and activation history survive a restart of the scheduler; one scheduler at "
      "a time has it",
      &state_dir);
  parser.text("history", "FILE",
              "activation history that a cluster without one of its own begins with, as GET /cluster/history "
              "gave it",
              &history_file);
  parser.choice(
      "planner", {"on", "off"},
      "let experts change their hosts by themselves when load is uneven or workers come and go; off: only by "
      "`troupe placement`",
      &planner);
  parser.real("planner-imbalance",
              "time of the busiest expert workers over that of an even load, above which the planner looks "
              "for something "
              "better",
              &planner_imbalance, 1, 1000);
  parser.real("planner-spare",
              "further copies of experts that the planner may make, as a share of all experts, where no "
              "--expert-memory "
              "says how many fit",
              &planner_spare, 0, 64);
  if (can_wait) {
    parser.toggle("standby",
                  "wait while another scheduler has the --state-dir, and take over when it dies or stands "
                  "still; without "
                  "it a scheduler that finds another one active ends with an error",
                  &standby);
  }
}

void scheduler_options::check() const {
  if (standby && state_dir.empty()) {
    throw option_error(
        "--standby: --state-dir is missing: schedulers take over by a lease on a directory that they share");
  }
}

void up_options::declare(option_parser& parser) {
  parser.number("attention-workers", "attention worker processes", &attention_workers, 1, 256);
  parser.number("schedulers",
                "scheduler processes: one is active, the others are its standbys and take over when it dies",
                &schedulers, 1, 8);
  parser.number("gateways", "gateway processes; they listen on --port, --port + 1, ...", &gateways, 1, 64);
  parser.text("run-dir", "DIR",
              "gets pids.json, the cluster secret and the scheduler's state; default: a new folder",
              &run_dir);
  parser.number(
      "hung-after",
      "seconds: a process that has not answered its /health for so long is killed and started again, a "
      "gateway only with --management-port; 0: none is",
      &hung_after, 0, 3600);
  parser.port("worker-metrics-port", "metrics port of the scheduler; the workers' follow it, experts first",
              &metrics_port);
  parser.toggle("shared-memory", "use shared memory between the processes, or TCP where /dev/shm has no room",
                &shared_memory);
}

void log_options::declare(option_parser& parser) {
  parser.choice("log-level", {"debug", "info", "warning", "error"},
                "lines of the log that are written: these and more serious ones; debug has each step of a "
                "request",
                &level);
  parser.choice("log-format", {"text", "json"}, "what a line of the log is", &format);
}

void trace_options::declare(option_parser& parser) {
  parser.text("trace", "DIR",
              "write what happens to requests, and when, into this folder, for `troupe trace merge`", &dir);
  parser.real("trace-sample",
              "share of the requests that are traced, beside those whose traceparent says so; 0: none until "
              "`troupe trace start`",
              &sample, 0, 1);
  parser.bytes("trace-max-bytes", "size of this process's trace, such as 64M; then it is traced no more",
               &max_bytes);
}

void cluster_options::declare(option_parser& parser, bool is_scheduler, bool is_gateway) {
  if (!is_scheduler) {
    parser.list("scheduler", "HOST:PORT",
                "where the scheduler listens; several, with commas between them, where there is a standby",
                &schedulers, read_endpoint);
  }
  parser.text("listen", "HOST:PORT", "where this process meets its peers; port 0: any free one", &listen);
  parser.text("advertise", "HOST:PORT", "how peers reach this process; default: the listening address",
              &advertise);
  parser.text("secret-file", "FILE", "file with the cluster secret, the same for all processes",
              &secret_file);
  parser.text("data-ports", "LO-HI", "TCP ports of the data connections; default: any free ones",
              &data_ports);
  parser.text("net-devices", "NAMES", "network devices for the data connections (UCX_NET_DEVICES)",
              &net_devices);
  parser.choice("ucx-repairs", {"auto", "on", "off", "required"},
                "whether faults of UCX 1.13 are repaired; auto: in the versions that were tested, others run "
                "without; required: other versions are refused",
                &ucx_repairs);
  parser.toggle(
      "shared-memory",
      "use shared memory between processes of one host: faster, for 16 MiB of /dev/shm for each peer, or TCP "
      "where there is no room",
      &shared_memory);
  if (is_scheduler) {
    parser.text("served-model-name", "NAME", "the model's name in metrics; default: they have no model_name",
                &served_model_name);
  }
  if (!is_gateway) {
    parser.text("metrics-host", "HOST", "address or name that /metrics, /health and /ready listen on",
                &metrics_host);
    parser.port("metrics-port", "port of /metrics, /health and /ready", &metrics_port);
    parser.text("metrics-prefix", "PREFIX", "prefix of metric names", &metrics_prefix);
  }
  parser.text("name", "NAME", "what this process is called in logs and on status pages", &name);
  parser.number("ready-fd",
                "file descriptor that gets one line with the endpoint when this process is up; 0: none",
                &ready_fd, 0, 65535);
}

} // namespace troupe

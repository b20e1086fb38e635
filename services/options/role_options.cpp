#include "services/options/role_options.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

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
  if (parse_host_port(entry, source).port == 0)
    throw option_error(source + ": '" + entry + "' has port 0, which nobody can dial");
  return entry;
}

/// Hugging Face's cache has revisions as `models--ORG--NAME/snapshots/HASH`: the repository, not the
/// revision, is the model.
std::string name_of_folder(const std::filesystem::path& folder) {
  constexpr std::string_view marker = "models--";
  const auto repository = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !repository.starts_with(marker))
    return folder.filename().string();
  auto name = repository.substr(marker.size());
  if (const auto dashes = name.find("--"); dashes != std::string::npos)
    name.replace(dashes, 2, "/");
  return name;
}

} // namespace

void model_options::declare(option_parser& parser) {
  parser.text("served-model-name", "NAME[,NAME...]",
              "names of the model in the API; answers and metrics use the first one; default: the name of "
              "the folder, or of the repository for a folder of Hugging Face's cache",
              &served_model_name);
  parser.choice("dtype", {"auto", "float32", "bfloat16"},
                "data type of weights and activations; auto: the checkpoint's", &dtype);
  parser.choice("expert-quant", {"auto", "none", "int8", "int4"},
                "weight-only quantization of experts; auto: as the weights are packed, none for a checkpoint",
                &expert_quant);
  parser.choice("int4-group", {"32", "64", "channel"},
                "number of weights that share a scale with --expert-quant int4", &int4_group);
  parser.choice("dense-quant", {"auto", "none", "int8", "int4"},
                "quantization of attention, LM head, dense and shared MLPs (embeddings: int8); auto: as the "
                "weights are packed, none for a checkpoint",
                &dense_quant);
  parser.choice("activation-quant", {"none", "int8"},
                "quantization of activation rows that are multiplied with quantized weights",
                &activation_quant);
  parser.choice("kv-cache-dtype", {"auto", "int8"},
                "data type of the KV cache; auto: that of the activations; int8: half the memory of bfloat16",
                &kv_cache_dtype);
  parser.choice("weight-coding", {"auto", "none", "exponents"},
                "storage of bfloat16 matrices; exponents: compress exponents losslessly (25 % less memory); "
                "none: store them plainly; auto: follow --kernel-plan",
                &weight_coding);
  parser.text(
      "weights-cache", "DIR",
      "pack the weights into this folder once and map them from there; default: convert at every start",
      &weights_cache);
  parser.choice("weights-memory", {"auto", "mapped", "copied"},
                "use packed weights where their file is mapped, or copy them into huge pages at start; auto: "
                "follow --kernel-plan, which maps by default",
                &weights_memory);
  parser.text("device", "auto|cpu|cuda[:N]",
              "compute on this device; auto: a GPU if this build and machine have one, otherwise the CPU",
              &device);
  parser.choice("cpu-isa", {"auto", "portable", "avx2", "avx512", "avx512_bf16", "amx"},
                "instruction set of the CPU kernels; all give the same bits", &cpu_isa);
  parser.text("kernel-plan", "auto|default|FILE",
              "choice of the kernels; it changes no answer; auto: the fastest, measured once at start (at "
              "most 2 s) and kept in --weights-cache or the user's cache folder; default: a fixed table for "
              "the instruction set; FILE: a plan from `troupe tune`",
              &kernel_plan);
  parser.number("threads",
                "compute threads of this process; 0: one per processor, within the cgroup's CPU quota",
                &threads, 0, 1024);
  parser.text("cores", "LIST|any|auto",
              "pin the compute threads to these processors, such as 0-3,8; any: do not pin; auto: do not "
              "pin, except in `troupe up` when it computes on every processor that it may use",
              &cores);
  parser.number("max-model-len",
                "maximum length of prompt plus answer in tokens; 0: the model's context length",
                &max_model_len, 0, 1U << 24);
}

std::string model_options::model_name() const {
  return model_names().front();
}

std::vector<std::string> model_options::model_names() const {
  std::vector<std::string> names;
  std::istringstream given(served_model_name);
  for (std::string name; std::getline(given, name, ',');) {
    if (name.empty())
      throw option_error("--served-model-name: '" + served_model_name + "' has an empty name");
    names.push_back(name);
  }
  if (names.empty()) {
    std::filesystem::path folder = std::filesystem::absolute(model_dir).lexically_normal();
    names.push_back(name_of_folder(folder.has_filename() ? folder : folder.parent_path()));
  }
  return names;
}

std::uint32_t model_options::num_threads() const {
  if (threads != 0)
    return threads;
  auto listed = cores_list();
  return listed.empty() ? available_processors() : static_cast<std::uint32_t>(listed.size());
}

std::vector<int> model_options::cores_list() const {
  if (cores == "auto" || cores == "any")
    return {};
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
  parser.text(
      "host", "HOST",
      "listen for the REST API at this address or name; the default is reachable from this machine only",
      &host);
  parser.number("port", "port of the REST API; 0: any free port, printed at start", &port, 0, 65535);
  parser.text("tls-cert-file", "FILE",
              "serve the API's port (not --management-port) over TLS with this certificate: PEM, followed by "
              "the intermediate certificates; SIGHUP reloads it",
              &tls_cert_file);
  parser.text("tls-key-file", "FILE", "private key of --tls-cert-file: PEM, not readable by other users",
              &tls_key_file);
  parser.text("api-key-file", "FILE",
              "accept only requests with a key of this file, one a line: KEY or NAME KEY; SIGHUP reloads it",
              &api_key_file);
  parser.text("operator-key-file", "FILE",
              "keys of the cluster's operators, in the form of --api-key-file: they open /metrics and "
              "/cluster at the API's port, and clients' requests, too; SIGHUP reloads it",
              &operator_key_file);
  parser.text("key-limits", "FILE",
              "JSON file with rates, concurrency and weights of the API keys; SIGHUP reloads it",
              &key_limits_file);
  parser.number("reload-interval",
                "check the files of --tls-cert-file, --tls-key-file, --api-key-file, --operator-key-file and "
                "--key-limits for changes every N seconds, and reload like SIGHUP after a change; 0: reload "
                "at SIGHUP only",
                &reload_interval_s, 0, 86400);
  parser.text("chat-template", "FILE", "Jinja chat template to use instead of the model's",
              &chat_template_file);
  parser.text("metrics-prefix", "PREFIX", "prefix of metric names; 'vllm:' makes vLLM's dashboards work",
              &metrics_prefix);
  parser.text("access-log", "FILE|-|off",
              "destination of the access log, one line per HTTP request: a file (reopened at SIGHUP), - for "
              "stderr, or off; successful probes and scrapes are logged at level debug",
              &access_log);
  parser.text("otlp-endpoint", "URL",
              "send a span for each generation request to this OpenTelemetry collector, such as "
              "http://127.0.0.1:4318 (OTLP over HTTP with JSON)",
              &otlp_endpoint);
  parser.toggle("trust-request-chat-template",
                "allow requests to bring their own chat template (`chat_template`)",
                &trust_request_chat_template);
  parser.number("text-threads",
                "threads that tokenize prompts and wait for chat templates; if there are several, one is "
                "reserved for short requests",
                &text_threads, 1, 64);
  parser.number("template-processes",
                "maximum number of processes that render chat templates; they start on demand",
                &template_processes, 1, 64);
  parser.number(
      "max-connections",
      "maximum number of open HTTP connections; a new one replaces an idle one, and gets 503 if none is idle",
      &max_connections, 1, 65536);
  parser.number("max-connections-per-peer",
                "maximum number of open HTTP connections of one address (IPv6: of one /64 network); more get "
                "429; 0: no limit",
                &max_connections_per_peer, 0, 65536);
  parser.list("trusted-proxies", "ADDRESS",
              "trusted proxies, by address or network such as 10.0.0.0/8: --max-connections-per-peer does "
              "not limit their connections, but the running requests of each client that they name in "
              "X-Forwarded-For; may be repeated",
              &trusted_proxies, read_proxy);
  parser.list("allowed-hosts", "HOST",
              "answer only requests for these hosts and for loopback names; default: only loopback names if "
              "the server listens on loopback without API keys, otherwise all; *: all; may be repeated",
              &allowed_hosts, read_allowed_host);
  parser.text("management-host", "HOST", "address or name that --management-port listens on",
              &management_host);
  parser.number("management-port",
                "port of /health, /ready, /version, /metrics and /cluster (GET) that needs no key and "
                "answers even when all API connections are in use; 0: none",
                &management_port, 0, 65535);
  parser.number("io-threads", "threads that read requests and write answers", &io_threads, 1, 64);
  parser.number("lame-duck", "seconds to keep serving after SIGTERM while /ready says no; SIGINT skips this",
                &lame_duck, 0, 3600);
  parser.number("drain-timeout", "seconds that running requests get to finish after the lame-duck time",
                &drain_timeout, 0, 86400);
  parser.bytes(
      "max-response-bytes",
      "maximum size of an answer that is not streamed, such as 64M; requests that could exceed it get 400",
      &max_response_bytes);
  parser.number("sse-ping-interval",
                "send a comment on a stream after N seconds without a token (at first its opening event), so "
                "that proxies keep it open; 0: never",
                &sse_ping_interval, 0, 3600);
  parser.number("idle-timeout",
                "close a connection after N seconds without a request; choose more than the load balancer's "
                "timeout, so that it does not send requests on closing connections",
                &idle_timeout, 1, 86400);
  parser.list("allowed-origins", "ORIGIN",
              "allow browser pages of this origin, such as https://example.com, to use the API (CORS); *: "
              "any origin; may be repeated",
              &allowed_origins, read_origin);
}

std::string gateway_options::url(std::uint16_t bound_port) const {
  return (tls_cert_file.empty() ? "http://" : "https://") + host_port_text(host, bound_port);
}

void attention_options::declare(option_parser& parser) {
  parser.number("max-num-seqs", "maximum number of sequences that an attention worker runs at once",
                &max_num_seqs, 1, 65536);
  parser.number("max-num-batched-tokens",
                "maximum number of tokens per iteration; longer prefills are cut into chunks",
                &max_num_batched_tokens, 16, 65536);
  parser.number("micro-batches", "maximum number of micro-batches in flight", &micro_batches, 1, 16);
  parser.bytes("kv-cache-memory",
               "memory of the KV cache; 0: what the cgroup's memory limit leaves to an attention worker, or "
               "1G without a limit",
               &kv_cache_memory);
  parser.toggle(
      "enable-prefix-caching",
      "keep the keys and values of finished requests in free KV cache memory, so that a prompt that "
      "begins with the same tokens is not computed again",
      &prefix_caching);
  parser.choice("gpu-steps", {"graphs", "kernels"},
                "execution of decode steps on a GPU; graphs: record a step's kernels once per batch shape "
                "(up to 64 sequences) and replay them; kernels: launch them one by one, so that traces "
                "include the router's time; no effect on a CPU",
                &gpu_steps);
}

void expert_options::declare(option_parser& parser, bool has_peers) {
  parser.bytes("expert-memory",
               "memory for expert weights of an expert worker; 0: what the cgroup's memory limit leaves, on "
               "a GPU its free memory, otherwise as much as needed",
               &expert_memory);
  parser.bytes("gpu-expert-memory",
               "GPU memory for expert weights; if all experts of the model need more, a worker holds its "
               "experts in page-locked host memory and uses this much GPU memory as a cache, filled on "
               "demand; 0: hold all experts in GPU memory; no effect on a CPU",
               &gpu_expert_memory);
  parser.number("expert-linger-us",
                "microseconds that a lone expert batch waits for other batches of its layer", &linger_us, 0,
                100000);
  if (has_peers) {
    parser.choice(
        "weights-from", {"files", "peers", "auto"},
        "source of an expert worker's weights; files: its model folder; peers: another expert worker that "
        "holds them, the folder if none does; auto: peers if the folder has no weights; for peers a folder "
        "with config.json is enough, and dtype and quantization are the cluster's",
        &weights_from);
  }
}

void scheduler_options::declare(option_parser& parser, expert_worker_count count) {
  parser.bytes("max-queued-bytes",
               "maximum memory of the prompts that wait in the queue, such as 64M; more get 429",
               &max_queued_bytes);
  parser.number("max-num-queued-reqs",
                "maximum number of requests in the queue; 0: as many as --max-queued-bytes allows",
                &max_num_queued_reqs, 0, 1U << 20);
  parser.number("max-queue-wait",
                "longest wait in the queue in seconds; a request expected to exceed it gets 429 at once, one "
                "that did gets 503; 0: no limit",
                &max_queue_wait, 0, 600);
  parser.real("admission-quantile",
              "reserve KV memory for this quantile of recent answer lengths (1: reserve max_tokens); a "
              "worker that runs out recomputes a sequence later",
              &admission_quantile, 0.05, 1);
  parser.number("replicas", "number of hosts of each expert, if there are as many expert workers", &replicas,
                1, 64);
  if (count != expert_worker_count::fixed) {
    parser.number("expert-workers",
                  count == expert_worker_count::started
                      ? "number of expert worker processes; the first placement waits for all of them"
                      : "delay the first placement until N expert workers have joined",
                  &expert_workers, 1, 4096);
  }
  parser.toggle("allow-inexact",
                "allow workers whose results may differ in the last bits to replace one another",
                &allow_inexact);
  parser.text("state-dir", "DIR",
              "keep term, placement and activation history in this folder, so that they survive a restart of "
              "the scheduler; only one scheduler at a time may use it",
              &state_dir);
  parser.text("history", "FILE",
              "initial activation history for a cluster that has none, as returned by GET /cluster/history",
              &history_file);
  parser.choice("planner", {"on", "off"},
                "move experts automatically when load is uneven or workers come and go; off: only by `troupe "
                "placement`",
                &planner);
  parser.real("planner-imbalance",
              "replan when the busiest expert workers need X times as long as under an even load",
              &planner_imbalance, 1, 1000);
  parser.real("planner-spare",
              "maximum number of extra expert copies that the planner makes, as a share of all experts, if "
              "no --expert-memory limits it",
              &planner_spare, 0, 64);
  parser.real("planner-utilization",
              "target share of time that an expert worker computes; the planner derives the recommended "
              "number of workers from it",
              &planner_utilization, 0.05, 1);
  if (count == expert_worker_count::awaited) {
    parser.toggle("standby",
                  "wait while another scheduler holds the --state-dir, and take over when it dies or hangs; "
                  "without this flag a scheduler that finds another one active fails",
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
  parser.number("attention-workers", "number of attention worker processes", &attention_workers, 1, 256);
  parser.number(
      "schedulers",
      "number of scheduler processes: one is active, the others are standbys that take over when it dies",
      &schedulers, 1, 8);
  parser.number("gateways", "number of gateway processes; they listen on --port, --port + 1, ...", &gateways,
                1, 64);
  parser.text("run-dir", "DIR",
              "folder for pids.json, the cluster secret and the scheduler's state; default: a new folder",
              &run_dir);
  parser.number("hung-after",
                "restart a process that has not answered /health for N seconds (a gateway only with "
                "--management-port); 0: never",
                &hung_after, 0, 3600);
  parser.port(
      "worker-metrics-port",
      "metrics port of the first scheduler; the other processes use the following ports, experts first",
      &metrics_port);
  parser.toggle("shared-memory", "use shared memory between the processes, or TCP if /dev/shm is full",
                &shared_memory);
}

void log_options::declare(option_parser& parser) {
  parser.choice("log-level", {"debug", "info", "warning", "error"},
                "minimum severity to log; debug includes each step of a request", &level);
  parser.choice("log-format", {"text", "json"}, "log line format", &format);
}

void trace_options::declare(option_parser& parser) {
  parser.text("trace", "DIR",
              "record what happens to requests, and when, in this folder, for `troupe trace merge`", &dir);
  parser.real("trace-sample",
              "share of requests to trace, besides those whose traceparent is sampled; 0: none until `troupe "
              "trace start`",
              &sample, 0, 1);
  parser.bytes("trace-max-bytes", "maximum size of this process's trace, such as 64M; tracing stops there",
               &max_bytes);
}

void cluster_options::declare(option_parser& parser, bool is_scheduler, bool is_gateway) {
  if (!is_scheduler) {
    parser.list("scheduler", "HOST:PORT",
                "address of the scheduler; with standbys, the addresses of all, separated by commas",
                &schedulers, read_endpoint);
  }
  parser.text("listen", "HOST:PORT", "listen for peers at this address; port 0: any free port", &listen);
  parser.text("advertise", "HOST:PORT",
              "address at which peers reach this process; default: the listening address", &advertise);
  parser.text("secret-file", "FILE",
              "file with the cluster secret, the same for all processes; with several, one a line, this "
              "process sends the first and accepts any of them; SIGHUP reloads it",
              &secret_file);
  if (!is_gateway) {
    parser.number("reload-interval",
                  "check --secret-file for changes every N seconds, and reload it after a change; 0: reload "
                  "at SIGHUP only",
                  &reload_interval_s, 0, 86400);
  }
  parser.text("data-ports", "LO-HI", "TCP ports of the data connections; default: any free ports",
              &data_ports);
  parser.text("net-devices", "NAMES", "network devices of the data connections (UCX_NET_DEVICES)",
              &net_devices);
  parser.choice(
      "ucx-repairs", {"auto", "on", "off", "required"},
      "work around faults of UCX 1.13; auto: in the tested versions only; required: refuse other versions",
      &ucx_repairs);
  parser.toggle("shared-memory",
                "use shared memory between processes of one host: faster, needs 16 MiB of /dev/shm per peer; "
                "TCP if that is full",
                &shared_memory);
  if (is_scheduler) {
    parser.text("served-model-name", "NAME", "name of the model in metrics; default: no model_name label",
                &served_model_name);
  }
  if (!is_scheduler && !is_gateway) {
    parser.number("drain-timeout",
                  "maximum seconds that a worker keeps serving after SIGTERM until other workers have taken "
                  "over its experts or sequences; choose more than loading a worker's share takes",
                  &drain_timeout, 0, 86400);
  }
  if (!is_gateway) {
    parser.text("metrics-host", "HOST", "address or name that /metrics, /health and /ready listen on",
                &metrics_host);
    parser.port("metrics-port", "port of /metrics, /health and /ready", &metrics_port);
    parser.text("metrics-prefix", "PREFIX", "prefix of metric names", &metrics_prefix);
  }
  parser.text("name", "NAME", "name of this process in logs and on status pages", &name);
  parser.number("ready-fd",
                "write one line with the endpoint to this file descriptor when the process is ready; 0: none",
                &ready_fd, 0, 65535);
}

} // namespace troupe

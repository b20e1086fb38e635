// The flags of each role, grouped by what they concern; `troupe serve` takes all groups, a role's program its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/defaults.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

/// How the model is loaded and computed: attention and expert workers, and the gateway for the tokenizer.
struct model_options {
  std::string model_dir;
  std::string served_model_name; ///< one or more, with commas between them; empty: the name of the folder
  std::string dtype = "auto";
  std::string expert_quant = "auto";
  std::string int4_group = "32";
  std::string dense_quant = "auto";
  std::string activation_quant = "none";
  std::string kv_cache_dtype = "auto";
  std::string weight_coding = "auto";
  std::string weights_cache; ///< empty: none
  std::string weights_memory = "auto";
  std::string device = "auto";
  std::string cpu_isa = "auto";
  std::string kernel_plan = "auto"; ///< or "default", or a file
  std::uint32_t threads = 0;        ///< 0: one per processor, within the cgroup's CPU quota
  std::string cores = "auto";       ///< a list such as 0-3,8, any, or auto
  std::uint32_t max_model_len = 0;  ///< 0: the model's context length

  void declare(option_parser& parser);
  /// The first of `model_names`: the model's name in answers, logs and metrics.
  std::string model_name() const;
  /// All names under which requests may ask for the model.
  std::vector<std::string> model_names() const;
  /// The number of compute threads: `threads`, or the length of `cores`, or `available_processors()`.
  std::uint32_t num_threads() const;
  /// The processors in `cores`; empty for `any` and `auto`.
  /// @throws option_error when it cannot be read
  std::vector<int> cores_list() const;
  /// @throws option_error for values that cannot be read or that contradict each other
  void check() const;
};

struct gateway_options {
  std::string host = "127.0.0.1";
  std::uint32_t port = 8000;
  std::string tls_cert_file; ///< empty: plain HTTP
  std::string tls_key_file;
  std::string api_key_file;
  std::string operator_key_file;       ///< empty: none
  std::string key_limits_file;         ///< empty: keys are not limited
  std::uint32_t reload_interval_s = 0; ///< 0: at SIGHUP only
  std::string chat_template_file;
  std::string metrics_prefix = "troupe_";
  std::uint32_t max_connections = 2048;
  std::uint32_t max_connections_per_peer = 1024; ///< 0: no limit
  std::vector<std::string> trusted_proxies;      ///< addresses or networks
  std::vector<std::string> allowed_hosts;        ///< in lower case; "*": all
  std::string management_host = "127.0.0.1";
  std::uint32_t management_port = 0; ///< 0: none
  std::uint32_t io_threads = 2;
  std::uint32_t lame_duck = 5;      ///< seconds
  std::uint32_t drain_timeout = 20; ///< seconds
  std::uint64_t max_response_bytes = std::uint64_t{64} << 20;
  std::uint32_t sse_ping_interval = 15; ///< seconds; 0: no comments
  std::uint32_t idle_timeout = 75;      ///< seconds
  std::uint32_t text_threads = 4;
  std::uint32_t template_processes = 4;
  bool trust_request_chat_template = false;
  std::string access_log = "-"; ///< a file; "-": stderr; "off": none
  std::string otlp_endpoint;    ///< http://HOST:PORT; empty: none
  std::vector<std::string>
      allowed_origins; ///< for CORS, as browsers write them; "*": all; empty: CORS is off

  void declare(option_parser& parser);
  /// The URL of the API. @param bound_port  the port that the system chose where `port` is 0
  std::string url(std::uint16_t bound_port) const;
};

struct attention_options {
  std::uint32_t max_num_seqs = defaults::max_num_seqs;
  std::uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens;
  std::uint32_t micro_batches = 1;
  std::uint64_t kv_cache_memory = 0; ///< 0: what the memory limit leaves, or 1 GiB without a limit
  std::string gpu_steps = "graphs";  ///< or "kernels"
  bool prefix_caching = true;

  void declare(option_parser& parser);
};

struct expert_options {
  std::uint64_t expert_memory = 0;     ///< 0: as much as needed
  std::uint64_t gpu_expert_memory = 0; ///< 0: GPU memory holds all experts
  std::uint32_t linger_us = 0;
  std::string weights_from = "files";
  std::string topology; ///< location of this worker, such as its node; empty: unknown

  /// @param has_peers  whether other workers exist that could send weights
  void declare(option_parser& parser, bool has_peers = true);
};

/// The meaning of --expert-workers in a program.
enum class expert_worker_count {
  awaited, ///< another program starts N workers
  started, ///< this program starts N workers and waits for them
  fixed,   ///< no such flag: the number is the default of `scheduler_options`
};

struct scheduler_options {
  std::uint64_t max_queued_bytes = defaults::max_queued_bytes;
  std::uint32_t max_num_queued_reqs = defaults::max_num_queued_reqs; ///< 0: as `max_queued_bytes` allows
  std::uint32_t max_queue_wait = defaults::queue_wait.count();       ///< seconds; 0: no limit
  double admission_quantile = defaults::admission_quantile;
  std::uint32_t replicas = 1;
  std::uint32_t expert_workers = 1; ///< that the first placement waits for
  bool allow_inexact = false;
  std::string state_dir;
  bool standby = false;       ///< wait while another scheduler holds the state directory
  std::string history_file;   ///< empty: none
  std::string planner = "on"; ///< "off": only operators move experts
  double planner_imbalance = 1.15;
  double planner_spare = 0.25;
  double planner_utilization = 0.6;

  /// A scheduler of a program of its own, whose expert workers are `awaited`, has a --standby.
  void declare(option_parser& parser, expert_worker_count count = expert_worker_count::awaited);
  /// @throws option_error for --standby without --state-dir
  void check() const;
};

/// The flags of `troupe up` besides those of the roles.
struct up_options {
  std::uint32_t gateways = 1;
  std::uint32_t attention_workers = 1;
  std::uint32_t schedulers = 1;
  std::string run_dir;           ///< empty: a new folder
  std::uint32_t hung_after = 30; ///< seconds; 0: no process is probed
  std::optional<std::uint16_t> metrics_port =
      0; ///< of the first scheduler; 0: any free port for each process; empty: none
  bool shared_memory = false;

  void declare(option_parser& parser);
};

/// The contents and form of a program's log; services/log/log_options.hpp applies them.
struct log_options {
  std::string level = "info";
  std::string format = "text";

  void declare(option_parser& parser);
};

/// Folder, sampling and size of a process's trace; see services/timeline/trace_writer.hpp.
struct trace_options {
  std::string dir;      ///< empty: no trace
  double sample = 0.01; ///< share of requests; 0: none until `troupe trace start`
  std::uint64_t max_bytes = std::uint64_t{64} << 20;

  void declare(option_parser& parser);
};

/// The flags with which a process finds its peers and is found.
struct cluster_options {
  std::vector<std::string> schedulers; ///< HOST:PORT of each, active or standby; empty in a scheduler
  std::string listen = "127.0.0.1:0";
  std::string advertise; ///< HOST:PORT; empty: the bound address
  std::string secret_file;
  std::uint32_t reload_interval_s = 0; ///< 0: at SIGHUP only. A gateway has its own
  std::string data_ports;              ///< LO-HI; empty: any
  std::string net_devices;
  std::string ucx_repairs = "auto";
  bool shared_memory = false;
  std::optional<std::uint16_t> metrics_port; ///< 0: any free port; empty: none
  std::string metrics_host = "127.0.0.1";
  std::string metrics_prefix = "troupe_";
  std::string served_model_name; ///< of a scheduler, for the label of its metrics; empty: no label
  std::uint32_t drain_timeout = defaults::worker_drain.count(); ///< seconds; of a worker
  std::string name;
  std::uint32_t ready_fd = 0; ///< descriptor that gets the endpoint as one line; 0: none

  /// @param is_scheduler  without --scheduler
  /// @param is_gateway    without metrics flags: a gateway serves metrics on its HTTP port
  void declare(option_parser& parser, bool is_scheduler, bool is_gateway);
};

} // namespace troupe

// The flags of each role, grouped by what they concern; `troupe serve` takes all groups, a role's program its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/defaults.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

/// How the model is loaded and computed: attention and expert workers, and the gateway for the tokenizer.
struct model_options {
  std::string model_dir;
  std::string served_model_name; ///< empty: the name of the folder
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
  uint32_t threads = 0;             ///< 0: one per processor, within the cgroup's CPU quota
  std::string cores = "auto";       ///< a list such as 0-3,8, any, or auto
  uint32_t max_model_len = 0;       ///< 0: what the model was made for

  void declare(option_parser& parser);
  /// The model's name in the API and in metrics.
  std::string model_name() const;
  /// Threads to compute with: `threads`, or as many as `cores` lists, or `available_processors()`.
  uint32_t num_threads() const;
  /// The processors that `cores` lists; empty when it is no list.
  /// @throws option_error when it cannot be read
  std::vector<int> cores_list() const;
  /// @throws option_error for values that cannot be read or do not go together
  void check() const;
};

struct gateway_options {
  std::string host = "127.0.0.1";
  uint32_t port = 8000;
  std::string tls_cert_file; ///< empty: plain HTTP
  std::string tls_key_file;
  std::string api_key_file;
  std::string key_limits_file;    ///< empty: keys are not limited
  uint32_t reload_interval_s = 0; ///< 0: at SIGHUP alone
  std::string chat_template_file;
  std::string metrics_prefix = "troupe_";
  uint32_t max_connections = 2048;
  uint32_t max_connections_per_peer = 1024; ///< 0: no limit
  std::vector<std::string> trusted_proxies; ///< addresses or networks
  std::vector<std::string> allowed_hosts;   ///< in lower case; "*": all
  std::string management_host = "127.0.0.1";
  uint32_t management_port = 0; ///< 0: none
  uint32_t io_threads = 2;
  uint32_t lame_duck = 5;      ///< seconds
  uint32_t drain_timeout = 20; ///< seconds
  uint64_t max_response_bytes = uint64_t{64} << 20;
  uint32_t sse_ping_interval = 15; ///< seconds; 0: no comments
  uint32_t text_threads = 4;
  uint32_t template_processes = 4;
  bool trust_request_chat_template = false;
  std::string access_log = "-"; ///< a file; "-": stderr; "off": none
  std::string otlp_endpoint;    ///< http://HOST:PORT; empty: none
  std::vector<std::string>
      allowed_origins; ///< for CORS, as browsers write them; "*": all; empty: CORS is off

  void declare(option_parser& parser);
  /// Where the API is. @param bound_port  the one that was given where `port` is 0
  std::string url(uint16_t bound_port) const;
};

struct attention_options {
  uint32_t max_num_seqs = defaults::max_num_seqs;
  uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens;
  uint32_t micro_batches = 1;
  uint64_t kv_cache_memory = uint64_t{1} << 30;
  std::string gpu_steps = "graphs"; ///< or "kernels"

  void declare(option_parser& parser);
};

struct expert_options {
  uint64_t expert_memory = 0;     ///< 0: as much as needed
  uint64_t gpu_expert_memory = 0; ///< 0: all experts lie in GPU memory
  uint32_t linger_us = 0;
  std::string weights_from = "files";

  /// @param has_peers  there are other workers to get weights from
  void declare(option_parser& parser, bool has_peers = true);
};

/// What --expert-workers means to a program.
enum class expert_worker_count {
  awaited, ///< others start them
  started, ///< so many processes are started, and then awaited
  fixed,   ///< there is no such flag: they are always as many as `scheduler_options` says
};

struct scheduler_options {
  uint64_t max_queued_bytes = defaults::max_queued_bytes;
  uint32_t max_num_queued_reqs = defaults::max_num_queued_reqs; ///< 0: as many as these bytes hold
  uint32_t max_queue_wait = defaults::queue_wait.count();       ///< seconds; 0: as long as a client waits
  double admission_quantile = defaults::admission_quantile;
  uint32_t replicas = 1;
  uint32_t expert_workers = 1; ///< wait for so many before the first placement
  bool allow_inexact = false;
  std::string state_dir;
  bool standby = false;       ///< wait while another scheduler has the state directory
  std::string history_file;   ///< empty: none
  std::string planner = "on"; ///< "off": experts change their hosts only by hand
  double planner_imbalance = 1.15;
  double planner_spare = 0.25;

  /// @param can_wait  there is a --standby
  void declare(option_parser& parser, expert_worker_count count = expert_worker_count::awaited,
               bool can_wait = false);
  /// @throws option_error for values that do not go together
  void check() const;
};

/// What `troupe up` starts, beside the options of the roles.
struct up_options {
  uint32_t gateways = 1;
  uint32_t attention_workers = 1;
  uint32_t schedulers = 1;
  std::string run_dir;                      ///< empty: a new folder
  uint32_t hung_after = 30;                 ///< seconds; 0: no process is asked for /health
  std::optional<uint16_t> metrics_port = 0; ///< of the scheduler; 0: any, for each process; nothing: none
  bool shared_memory = false;

  void declare(option_parser& parser);
};

/// What a program writes to its log; for `configure` see services/process/log_options.hpp.
struct log_options {
  std::string level = "info";
  std::string format = "text";

  void declare(option_parser& parser);
};

/// Where a process writes its timeline, and of which requests; see services/timeline/trace_writer.hpp.
struct trace_options {
  std::string dir;      ///< empty: nowhere
  double sample = 0.01; ///< share of the requests; 0: none until `troupe trace start`
  uint64_t max_bytes = uint64_t{64} << 20;

  void declare(option_parser& parser);
};

/// How a process of a cluster meets the others.
struct cluster_options {
  std::vector<std::string> schedulers; ///< HOST:PORT of each, active or standby; not for a scheduler itself
  std::string listen = "127.0.0.1:0";
  std::string advertise; ///< HOST:PORT; empty: the bound address
  std::string secret_file;
  std::string data_ports; ///< LO-HI; empty: any
  std::string net_devices;
  std::string ucx_repairs = "auto";
  bool shared_memory = false;
  std::optional<uint16_t> metrics_port; ///< 0: any; nothing: none
  std::string metrics_host = "127.0.0.1";
  std::string metrics_prefix = "troupe_";
  std::string served_model_name; ///< a scheduler's, who has no model: the label of metrics; empty: none
  std::string name;
  uint32_t ready_fd = 0; ///< where to write the bound endpoint as one line; 0: nowhere

  /// @param is_scheduler      it has no --scheduler
  /// @param is_gateway        its metrics are on its HTTP port
  void declare(option_parser& parser, bool is_scheduler, bool is_gateway);
};

} // namespace troupe

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "kernels/model/plan_store.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/options/environment.hpp"
#include "services/options/network_address.hpp"
#include "services/options/processors.hpp"
#include "services/options/role_options.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/model_source.hpp"
#include "services/process/process_log.hpp"
#include "services/process/stop_signal.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/scrape_targets.hpp"
#include "services/troupe/supervisor.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// Weights of large models take their time; a process that is not up by then is not coming.
constexpr auto start_deadline = std::chrono::minutes{10};
/// What stopping may take beyond the gateways' --lame-duck and --drain-timeout; then what is left is killed.
constexpr auto stop_margin = std::chrono::seconds{5};

/// Flags of the groups a role takes, as words for its command line.
class flag_words {
 public:
  /// An empty value too: it is what this program was told, and the child's default may be another.
  flag_words& add(const std::string& name, const std::string& value) {
    words_.push_back("--" + name);
    words_.push_back(value);
    return *this;
  }

  template <class Number>
  flag_words& add_number(const std::string& name, Number value) {
    return add(name, std::to_string(value));
  }

  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
};

/// @param cores  for the threads, one each; empty: wherever the kernel puts them
void add_model(flag_words& flags, const model_options& o, uint32_t threads, std::span<const int> cores) {
  flags.add("served-model-name", o.served_model_name)
      .add("dtype", o.dtype)
      .add("expert-quant", o.expert_quant)
      .add("int4-group", o.int4_group)
      .add("dense-quant", o.dense_quant)
      .add("activation-quant", o.activation_quant)
      .add("kv-cache-dtype", o.kv_cache_dtype)
      .add("weight-coding", o.weight_coding)
      .add("weights-cache", o.weights_cache)
      .add("weights-memory", o.weights_memory)
      .add("device", o.device)
      .add("cpu-isa", o.cpu_isa)
      .add("kernel-plan", o.kernel_plan)
      .add_number("threads", threads)
      .add("cores", cores.empty() ? "any" : processors_text(cores))
      .add_number("max-model-len", o.max_model_len);
}

/// For probes, which look no name up; empty where the host is one.
std::string numeric_address(const std::string& address) {
  return parse_network_address(address.substr(0, address.rfind(':'))) ? address : std::string{};
}

/// A file that only we can read, with 32 random bytes in hexadecimal.
fs::path write_secret(const fs::path& run_dir) {
  fs::path file = run_dir / "secret";
  fs::remove(file);
  int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(), "--run-dir: cannot write " + file.string());
  }
  std::random_device random;
  std::string text;
  constexpr const char* digits = "0123456789abcdef";
  for (int i = 0; i < 64; ++i) {
    text += digits[random() & 15U];
  }
  text += '\n';
  ssize_t written = write(fd, text.data(), text.size());
  close(fd);
  if (written != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("--run-dir: cannot write " + file.string());
  }
  return file;
}

std::vector<fs::path> traces_in(const std::string& dir) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(dir, none)) {
    if (entry.path().extension() == ".trace") {
      found.push_back(entry.path());
    }
  }
  return found;
}

/// Removes a file at the end of its scope.
class file_remover {
 public:
  explicit file_remover(fs::path file) : file_(std::move(file)) {}

  ~file_remover() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }

  file_remover(const file_remover&) = delete;
  file_remover& operator=(const file_remover&) = delete;

 private:
  fs::path file_;
};

/// Two clusters in one folder would overwrite each other's pids: an advisory lock that ends with this
/// process.
class run_dir_lock {
 public:
  explicit run_dir_lock(const fs::path& run_dir) {
    std::error_code error;
    fs::create_directories(run_dir, error);
    fs::path file = run_dir / "lock";
    fd_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "--run-dir: cannot write " + file.string());
    }

    struct flock lock {};

    lock.l_type = F_WRLCK;
    if (fcntl(fd_, F_SETLK, &lock) != 0) {
      close(fd_);
      throw std::runtime_error("--run-dir: another cluster runs in " + run_dir.string());
    }
  }

  ~run_dir_lock() { close(fd_); }

  run_dir_lock(const run_dir_lock&) = delete;
  run_dir_lock& operator=(const run_dir_lock&) = delete;

 private:
  int fd_ = -1;
};

} // namespace

int up_command(const std::vector<std::string>& arguments) {
  up_options up;
  model_options model;
  gateway_options gateway;
  attention_options attention;
  expert_options expert;
  scheduler_options scheduler;
  log_options logs;
  trace_options traces;
  option_parser parser("troupe up", "Starts and supervises a local cluster of separate processes.");
  parser.positional("MODEL_DIR", "Hugging Face model folder", &model.model_dir);
  up.declare(parser);
  gateway.declare(parser);
  model.declare(parser);
  attention.declare(parser);
  expert.declare(parser);
  scheduler.expert_workers = 2;
  scheduler.declare(parser, expert_worker_count::started);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  // The children get their flags as words; a file that the environment names is ours, and has flags that are
  // not theirs.
  unsetenv("TROUPE_CONFIG");
  if (gateway.port != 0 && gateway.port + up.gateways - 1 > 65535) {
    throw option_error("--port: " + std::to_string(up.gateways) + " gateways do not fit above "
                       + std::to_string(gateway.port));
  }
  if (gateway.management_port != 0 && gateway.management_port + up.gateways - 1 > 65535) {
    throw option_error("--management-port: " + std::to_string(up.gateways) + " gateways do not fit above "
                       + std::to_string(gateway.management_port));
  }
  const uint32_t num_workers = up.schedulers + scheduler.expert_workers + up.attention_workers;
  if (up.metrics_port.value_or(0) != 0 && *up.metrics_port + num_workers - 1 > 65535) {
    throw option_error("--worker-metrics-port: " + std::to_string(num_workers)
                       + " processes do not fit above " + std::to_string(*up.metrics_port));
  }
  if (!traces_in(traces.dir).empty()) {
    throw option_error("--trace: " + traces.dir
                       + " has traces of an earlier run, which would be merged with "
                         "those of this one; name another folder, or empty it");
  }
  stop_signal stop; // the first packing of a cache takes minutes; from then on the supervisor listens
  configure_logs(logs);
  process_log log("troupe-up");
  // Told once, here: the children inherit what is left.
  log_unread_variables(parser, log);
  find_unread_variables(parser).remove();
  std::optional<kernels::kernel_plan> plan;
  // One clear error or line here, rather than one from each process.
  {
    model_source source = open_model(model);
    log_clamped(model, source, log);
    check_history(scheduler, source.fingerprint);
    read_tls_identity(gateway);
    model.max_model_len = std::min(model.max_model_len, static_cast<uint32_t>(source.config.max_context));
    plan = source.plan;
  }
  log_clamped(scheduler, log);

  fs::path run_dir = up.run_dir;
  if (run_dir.empty()) {
    std::string pattern = (fs::temp_directory_path() / "troupe-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make a folder for this run");
    }
    run_dir = pattern;
  }
  run_dir_lock lock(run_dir);
  if (traces.dir.empty()) { // `troupe trace start` finds a folder all the same
    traces.dir = (run_dir / "trace").string();
    traces.sample = 0;
    for (const fs::path& old : traces_in(traces.dir)) { // of an earlier run in this folder
      fs::remove(old);
    }
  }
  fs::path secret = write_secret(run_dir);
  const file_remover forget_secret(secret); // behind the children's end: those that are started anew read it
  if (scheduler.state_dir.empty()) {
    scheduler.state_dir = (run_dir / "state").string();
  }
  if (plan && model.kernel_plan == "auto") {
    // Measured once, for all of them; and all pack the same into a cache.
    if (model.weight_coding == "auto") {
      model.weight_coding = plan->coded_weights ? "exponents" : "none";
    }
    model.kernel_plan = (run_dir / "kernel-plan.txt").string();
    model::write_plan(model.kernel_plan, *plan);
  }
  const auto stop_grace = std::chrono::seconds{gateway.lame_duck + gateway.drain_timeout} + stop_margin;
  supervisor processes(
      run_dir, [&](const std::string& line) { log.line("supervisor", line); }, {},
      up.hung_after == 0 ? std::nullopt : std::optional{limits_for(std::chrono::seconds{up.hung_after})});
  fs::path programs = fs::read_symlink("/proc/self/exe").parent_path();

  // Attention and expert phases alternate, so each side may use all processors; within a side they are
  // divided. Expert processes get twice their share: small batches do not reach all of them evenly, and
  // whoever has work takes the processors of those that have none (docs/decisions/0002-split-cost.md).
  uint32_t cores = model.num_threads();
  uint32_t attention_threads = std::max(1U, cores / up.attention_workers);
  uint32_t expert_threads = std::clamp(2 * cores / scheduler.expert_workers, 1U, cores);

  // With every processor in use, threads are better pinned: two of one process that the kernel has put on the
  // same one wait for each other there while another idles.
  std::vector<int> pinned = model.cores_list();
  if (model.cores == "auto" && cores == usable_processors().size()) {
    pinned = usable_processors();
  }
  if (size_t usable = usable_processors().size();
      model.threads == 0 && model.cores_list().empty() && cores < usable) {
    log.line("compute", std::to_string(cores) + (cores == 1 ? " thread" : " threads") + " of "
                            + std::to_string(usable) + " processors"
                            + (model.cores == "auto" ? ", not pinned" : "") + ": the cgroup's CPU quota");
  }

  std::optional<uint16_t> next_metrics_port = up.metrics_port;
  auto add_metrics = [&](flag_words& flags) {
    flags.add("metrics-prefix", gateway.metrics_prefix);
    if (!next_metrics_port) {
      flags.add("metrics-port", "0");
    } else if (*next_metrics_port == 0) {
      flags.add("metrics-port", "any");
    } else {
      flags.add_number("metrics-port", (*next_metrics_port)++);
    }
  };
  scrape_targets scraped(run_dir / "prometheus-targets.json");
  /// Where a worker's metrics are, for Prometheus; it gets the same port when it is started again.
  auto keep_metrics = [&scraped](const std::string& role, const std::string& name,
                                 const std::string& metrics) {
    std::vector<std::string> flags;
    if (!metrics.empty()) {
      scraped.add(role, name, metrics);
      flags = {"--metrics-port", metrics.substr(metrics.rfind(':') + 1)};
    }
    return flags;
  };
  auto child = [&](const std::string& program, const std::string& name, uint32_t phase,
                   const flag_words& flags) {
    child_spec spec;
    spec.name = name;
    spec.stop_phase = phase;
    spec.health_address = [](const std::string& line) { return numeric_address(ready_line(line).metrics); };
    spec.argv = {(programs / program).string()};
    if (program != "troupe-scheduler") {
      spec.argv.push_back(model.model_dir);
    }
    spec.argv.insert(spec.argv.end(), flags.words().begin(), flags.words().end());
    for (const std::string& word :
         {std::string("--name"), name, std::string("--secret-file"), secret.string(),
          std::string("--shared-memory"), std::string(up.shared_memory ? "true" : "false"),
          std::string("--log-level"), logs.level, std::string("--log-format"), logs.format,
          std::string("--trace"), traces.dir, std::string("--trace-sample"), std::to_string(traces.sample),
          std::string("--trace-max-bytes"), std::to_string(traces.max_bytes)}) {
      spec.argv.push_back(word);
    }
    return spec;
  };

  std::string endpoint; // of all schedulers, with commas between them
  for (uint32_t i = 0; i < up.schedulers; ++i) {
    flag_words scheduler_flags;
    scheduler_flags.add_number("max-queued-bytes", scheduler.max_queued_bytes)
        .add_number("max-num-queued-reqs", scheduler.max_num_queued_reqs)
        .add_number("max-queue-wait", scheduler.max_queue_wait)
        .add_number("admission-quantile", scheduler.admission_quantile)
        .add_number("replicas", scheduler.replicas)
        .add_number("expert-workers", scheduler.expert_workers)
        .add("allow-inexact", scheduler.allow_inexact ? "true" : "false")
        .add("state-dir", scheduler.state_dir)
        .add("history", scheduler.history_file)
        .add("planner", scheduler.planner)
        .add_number("planner-imbalance", scheduler.planner_imbalance)
        .add_number("planner-spare", scheduler.planner_spare)
        .add("standby", up.schedulers > 1 ? "true" : "false") // whoever comes first is active
        .add("served-model-name", model.model_name())
        .add("listen", "127.0.0.1:0");
    add_metrics(scheduler_flags);
    const std::string name = "scheduler-" + std::to_string(i);
    child_spec scheduler_child = child("troupe-scheduler", name, 3, scheduler_flags);
    // A restarted scheduler must be found where the workers look for it.
    scheduler_child.on_ready = [keep_metrics, name](const std::string& line) {
      auto flags = keep_metrics("scheduler", name, ready_line(line).metrics);
      flags.insert(flags.end(), {"--listen", ready_line(line).endpoint});
      return flags;
    };
    processes.start(std::move(scheduler_child));
    auto scheduler_ready = processes.wait_ready(name, start_deadline);
    if (!scheduler_ready) {
      return processes.run(stop_grace);
    }
    endpoint += (i == 0 ? "" : ",") + ready_line(*scheduler_ready).endpoint;
    log.line("ready", name + " " + ready_line(*scheduler_ready).text());
  }

  std::vector<std::string> names;
  auto start = [&](child_spec spec) {
    names.push_back(spec.name);
    processes.start(std::move(spec));
  };
  auto start_worker = [&](const std::string& role, child_spec spec) {
    spec.on_ready = [keep_metrics, role, name = spec.name](const std::string& line) {
      return keep_metrics(role, name, ready_line(line).metrics);
    };
    start(std::move(spec));
  };
  for (uint32_t i = 0; i < scheduler.expert_workers; ++i) {
    flag_words flags;
    add_model(flags, model, expert_threads,
              processors_of(pinned, i, scheduler.expert_workers, expert_threads));
    flags.add_number("expert-memory", expert.expert_memory)
        .add_number("gpu-expert-memory", expert.gpu_expert_memory)
        .add_number("expert-linger-us", expert.linger_us)
        .add("weights-from", expert.weights_from);
    flags.add("scheduler", endpoint);
    add_metrics(flags);
    start_worker("expert", child("troupe-expert", "expert-" + std::to_string(i), 2, flags));
  }
  for (uint32_t i = 0; i < up.attention_workers; ++i) {
    flag_words flags;
    add_model(flags, model, attention_threads,
              processors_of(pinned, i, up.attention_workers, attention_threads));
    flags.add_number("max-num-seqs", attention.max_num_seqs)
        .add_number("max-num-batched-tokens", attention.max_num_batched_tokens)
        .add_number("micro-batches", attention.micro_batches)
        .add_number("kv-cache-memory", attention.kv_cache_memory)
        .add("gpu-steps", attention.gpu_steps);
    flags.add("scheduler", endpoint);
    add_metrics(flags);
    start_worker("attention", child("troupe-attention", "attention-" + std::to_string(i), 1, flags));
  }
  for (uint32_t i = 0; i < up.gateways; ++i) {
    flag_words flags;
    add_model(flags, model, 1, {});
    flags.add("host", gateway.host)
        .add_number("port", gateway.port == 0 ? 0 : gateway.port + i)
        .add("tls-cert-file", gateway.tls_cert_file)
        .add("tls-key-file", gateway.tls_key_file)
        .add("api-key-file", gateway.api_key_file)
        .add("key-limits", gateway.key_limits_file)
        .add_number("reload-interval", gateway.reload_interval_s)
        .add("chat-template", gateway.chat_template_file)
        .add("trust-request-chat-template", gateway.trust_request_chat_template ? "true" : "false")
        .add("access-log", gateway.access_log)
        .add("otlp-endpoint", gateway.otlp_endpoint)
        .add("metrics-prefix", gateway.metrics_prefix)
        .add_number("max-connections", gateway.max_connections)
        .add_number("max-connections-per-peer", gateway.max_connections_per_peer)
        .add("trusted-proxies", nlohmann::json(gateway.trusted_proxies).dump())
        .add("allowed-hosts", nlohmann::json(gateway.allowed_hosts).dump())
        .add("management-host", gateway.management_host)
        .add_number("management-port", gateway.management_port == 0 ? 0 : gateway.management_port + i)
        .add_number("io-threads", gateway.io_threads)
        .add_number("lame-duck", gateway.lame_duck)
        .add_number("drain-timeout", gateway.drain_timeout)
        .add_number("max-response-bytes", gateway.max_response_bytes)
        .add_number("sse-ping-interval", gateway.sse_ping_interval)
        .add_number("text-threads", gateway.text_threads)
        .add_number("template-processes", gateway.template_processes)
        .add("allowed-origins", nlohmann::json(gateway.allowed_origins).dump());
    flags.add("scheduler", endpoint);
    child_spec spec = child("troupe-gateway", "gateway-" + std::to_string(i), 0, flags);
    spec.reloads = true;
    const std::string managed =
        gateway.management_port == 0
            ? std::string{}
            : host_port_text(gateway.management_host, static_cast<uint16_t>(gateway.management_port + i));
    // Not at its API, which turns away whoever comes while all connections are in use.
    spec.health_address = [managed](const std::string&) { return numeric_address(managed); };
    spec.on_ready = [&scraped, managed,
                     name = spec.name](const std::string& url) -> std::vector<std::string> {
      const auto scheme = url.find("://");
      if (managed.empty()) {
        scraped.add("gateway", name, url.substr(scheme + 3), url.substr(0, scheme));
      } else {
        scraped.add("gateway", name, managed);
      }
      // One that is restarted must be found where clients know it.
      return {"--port", url.substr(url.rfind(':') + 1)}; // an IPv6 address has colons too
    };
    start(std::move(spec));
  }
  for (const auto& name : names) {
    auto ready = processes.wait_ready(name, start_deadline);
    if (!ready) {
      return processes.run(stop_grace);
    }
    log.line("ready", name + " " + ready_line(*ready).text());
  }
  scraped.write();
  log.line("running", std::to_string(names.size() + up.schedulers) + " processes; "
                          + (run_dir / "pids.json").string()
                          + "; for Prometheus: " + scraped.file().string());
  return processes.run(stop_grace);
}

} // namespace troupe

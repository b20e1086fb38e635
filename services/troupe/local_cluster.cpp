#include "services/troupe/local_cluster.hpp"

#include <utility>

#include "services/options/network_address.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// Loading a large model takes minutes; a process that is not ready by then will not become ready.
constexpr auto start_deadline = std::chrono::minutes{10};
/// Time for stopping beyond the gateways' --lame-duck and --drain-timeout; then what is left is killed.
constexpr auto stop_margin = std::chrono::seconds{5};

/// The address where its host is a numeric one, as probes need it: they look up no names. Otherwise empty.
std::string numeric_address(const std::string& address) {
  return parse_network_address(address.substr(0, address.rfind(':'))) ? address : std::string{};
}

void append(std::vector<std::string>& words, std::vector<std::string> more) {
  words.insert(words.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace

local_cluster::local_cluster(const up_flags& flags, const run_folder& folder, const process_log& log)
    : flags_(flags),
      folder_(folder),
      log_(log),
      programs_(fs::read_symlink("/proc/self/exe").parent_path()),
      metrics_port_(flags.up.metrics_port),
      scraped_(folder.path() / "prometheus-targets.json"),
      processes_(
          folder.path(), [log](const std::string& line) { log.line("supervisor", line); },
          flags.up.hung_after == 0 ? std::nullopt
                                   : std::optional{limits_for(std::chrono::seconds{flags.up.hung_after})}) {}

int local_cluster::run() {
  const auto grace =
      std::chrono::seconds{flags_.gateway.lame_duck + flags_.gateway.drain_timeout} + stop_margin;
  if (!start_schedulers())
    return processes_.run(grace);
  start_experts();
  start_attention_workers();
  start_gateways();
  for (const auto& name : names_)
    if (!wait_ready(name))
      return processes_.run(grace);
  scraped_.write();
  log_.line("running", std::to_string(names_.size() + flags_.up.schedulers) + " processes; "
                           + (folder_.path() / "pids.json").string()
                           + "; for Prometheus: " + scraped_.file().string());
  return processes_.run(grace);
}

/// @returns whether all of them are ready; otherwise a signal says stop
bool local_cluster::start_schedulers() {
  for (std::uint32_t i = 0; i < flags_.up.schedulers; ++i) {
    auto words = flags_.scheduler_words();
    append(words, {"--served-model-name", flags_.model.model_name(), "--listen", "127.0.0.1:0"});
    child_spec spec = worker_of("scheduler", i, 3, std::move(words));
    // Workers look for a restarted scheduler where it was before.
    spec.on_ready = [keep = std::move(spec.on_ready)](const std::string& line) {
      auto flags = keep(line);
      append(flags, {"--listen", ready_line(line).endpoint});
      return flags;
    };
    const std::string name = spec.name;
    processes_.start(std::move(spec));
    const auto ready = wait_ready(name);
    if (!ready)
      return false;
    schedulers_ += (i == 0 ? "" : ",") + ready_line(*ready).endpoint;
  }
  return true;
}

void local_cluster::start_experts() {
  for (std::uint32_t i = 0; i < flags_.scheduler.expert_workers; ++i)
    start(worker_of("expert", i, 2, flags_.expert_words(i)));
}

void local_cluster::start_attention_workers() {
  for (std::uint32_t i = 0; i < flags_.up.attention_workers; ++i)
    start(worker_of("attention", i, 1, flags_.attention_words(i)));
}

void local_cluster::start_gateways() {
  for (std::uint32_t i = 0; i < flags_.up.gateways; ++i) {
    child_spec spec = child_of("gateway", i, 0, flags_.gateway_words(i));
    spec.reloads = true;
    const auto own = flags_.gateway_at(i);
    const std::string managed =
        own.management_port == 0
            ? std::string{}
            : host_port_text(own.management_host, static_cast<std::uint16_t>(own.management_port));
    // Not at its API, which refuses probes while all connections are in use.
    spec.health_address = [managed](const std::string&) { return numeric_address(managed); };
    spec.on_ready = [this, managed, name = spec.name](const std::string& url) -> std::vector<std::string> {
      const auto scheme = url.find("://");
      if (managed.empty())
        scraped_.add("gateway", name, url.substr(scheme + 3), url.substr(0, scheme));
      else
        scraped_.add("gateway", name, managed);
      // Clients look for a restarted gateway at its first port.
      return {"--port", url.substr(url.rfind(':') + 1)}; // an IPv6 address has colons, too
    };
    start(std::move(spec));
  }
}

void local_cluster::start(child_spec spec) {
  names_.push_back(spec.name);
  processes_.start(std::move(spec));
}

/// @returns the ready line, which it logs; nothing when a signal says stop
std::optional<std::string> local_cluster::wait_ready(const std::string& name) {
  auto line = processes_.wait_ready(name, start_deadline);
  if (line)
    log_.line("ready", name + " " + ready_line(*line).text());
  return line;
}

child_spec local_cluster::child_of(const std::string& role, std::uint32_t index, std::uint32_t stop_phase,
                                   std::vector<std::string> words) const {
  child_spec spec;
  spec.name = role + "-" + std::to_string(index);
  spec.stop_phase = stop_phase;
  spec.argv = {(programs_ / ("troupe-" + role)).string()};
  if (role != "scheduler")
    append(spec.argv, {flags_.model.model_dir, "--scheduler", schedulers_});
  append(spec.argv, std::move(words));
  append(spec.argv, {"--name", spec.name, "--secret-file", folder_.secret().string(), "--shared-memory",
                     flags_.up.shared_memory ? "true" : "false"});
  return spec;
}

/// A child with a metrics port, which it gets again when it is restarted.
child_spec local_cluster::worker_of(const std::string& role, std::uint32_t index, std::uint32_t stop_phase,
                                    std::vector<std::string> words) {
  child_spec spec = child_of(role, index, stop_phase, std::move(words));
  append(spec.argv,
         {"--metrics-prefix", flags_.gateway.metrics_prefix, "--metrics-port", next_metrics_port()});
  spec.health_address = [](const std::string& line) { return numeric_address(ready_line(line).metrics); };
  spec.on_ready = [this, role, name = spec.name](const std::string& line) -> std::vector<std::string> {
    const std::string metrics = ready_line(line).metrics;
    if (metrics.empty())
      return {};
    scraped_.add(role, name, metrics);
    return {"--metrics-port", metrics.substr(metrics.rfind(':') + 1)};
  };
  return spec;
}

std::string local_cluster::next_metrics_port() {
  if (!metrics_port_)
    return "0";
  return *metrics_port_ == 0 ? "any" : std::to_string((*metrics_port_)++);
}

} // namespace troupe

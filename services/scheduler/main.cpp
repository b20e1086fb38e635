// troupe-scheduler: membership, admission and placement of a cluster.
#include <chrono>
#include <optional>

#include "services/cluster/cluster_process.hpp"
#include "services/log/request_lines.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/metrics/rebalancer_families.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "services/metrics/state_disk_watch.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/startup/exit_deadline.hpp"
#include "services/startup/role_frame.hpp"
#include "services/startup/role_main.hpp"
#include "services/startup/startup.hpp"

namespace troupe {
namespace {

/// Longer than scheduler_service::stop waits, and shorter than supervisors wait.
constexpr auto exit_time = std::chrono::seconds{20};

int run(const std::vector<std::string>& arguments) {
  cluster_options cluster;
  cluster.listen = "127.0.0.1:7000";
  cluster.name = "scheduler-0";
  scheduler_options options;
  log_options logs;
  trace_options traces;
  option_parser parser("troupe-scheduler",
                       "Admits requests, assigns them, and places the experts of a cluster.");
  options.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/true, /*is_gateway=*/false);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  options.check();
  role_frame frame(parser, logs, traces, cluster.name);
  const process_log& log = frame.log;
  startup start(cluster, cluster.metrics_prefix, cluster.served_model_name, log);
  const auto& families = start.families();
  cluster_process process(cluster, "scheduler", "", log, frame.reload);
  metrics::show_build(*families, "");
  process.show_traffic(*families);
  // A standby is running but publishes no scheduler yet.
  if (options.standby) {
    start.done({.why_not_ready = [] { return std::string("standby"); }});
    process.announce(start.endpoint());
  }
  std::optional<succession> from;
  if (!options.state_dir.empty()) {
    from = take_state(options, cluster.name, [log](const lease_holder& active) {
      log.line("standby", described(active) + " is active in term " + std::to_string(active.term));
    });
    if (!from) {
      log.line("stopping", "");
      return stop_signal::exit_status();
    }
    log.line("active", "term " + std::to_string(from->lease->term()));
  }
  std::optional<metrics::state_disk_watch> disk;
  if (!options.state_dir.empty())
    disk.emplace(options.state_dir, families);
  auto events = [log](const char* name, const std::string& text) { log.line(name, text); };
  scheduler_service scheduler(
      process.system(), options,
      std::make_shared<metrics::scheduler_families>(
          families, events, [log](const request_event& event) { log_request(log, event); }),
      std::make_shared<metrics::rebalancer_families>(families, events), std::move(from));
  process.peers().publish("history", scheduler.history());
  process.peers().publish("rebalancer", scheduler.rebalancer());
  process.peers().publish("scheduler", scheduler.actor());
  start.done({});
  if (!options.standby)
    process.announce(start.endpoint());
  frame.stop.wait();
  log.line("stopping", "");
  exit_within(exit_time, log); // stop() waits for threads that write state, and a disk may hang
  scheduler.stop();
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-scheduler", argc, argv, troupe::run);
}

// troupe-scheduler: membership, admission and placement of a cluster.
#include <atomic>
#include <chrono>
#include <optional>

#include "services/metrics/rebalancer_families.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "services/metrics/state_disk_watch.hpp"
#include "services/process/cluster_process.hpp"
#include "services/process/exit_deadline.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/request_lines.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/timeline/trace_writer.hpp"

namespace troupe {
namespace {

/// Beyond what scheduler_service::stop waits for, and within what supervisors give.
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
  options.declare(parser, expert_worker_count::awaited, /*can_wait=*/true);
  cluster.declare(parser, /*is_scheduler=*/true, /*is_gateway=*/false);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  options.check();
  stop_signal stop;
  configure_logs(logs);
  process_log log(cluster.name);
  const trace_writer tracing(traces, log);
  log_unread_variables(parser, log);
  cluster_process process(cluster, "scheduler", "", log);
  auto families = process.make_families(cluster.metrics_prefix, cluster.served_model_name, "");
  // A standby is up, and found by nobody: it publishes no scheduler yet.
  auto waits = std::make_shared<std::atomic<bool>>(options.standby);
  std::unique_ptr<metrics::endpoint> scrapes;
  if (options.standby) {
    scrapes = process.announce(
        families, {.why_not_ready = [waits] { return std::string(*waits ? "standby" : ""); }, .flaw = {}});
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
  if (!options.state_dir.empty()) {
    disk.emplace(options.state_dir, families);
  }
  auto events = [log](const char* name, const std::string& text) { log.line(name, text); };
  scheduler_service scheduler(
      process.system(), options,
      std::make_shared<metrics::scheduler_families>(
          families, events, [log](const request_event& event) { log_request(log, event); }),
      std::make_shared<metrics::rebalancer_families>(families, events), std::move(from));
  process.peers().publish("history", scheduler.history());
  process.peers().publish("rebalancer", scheduler.rebalancer());
  process.peers().publish("scheduler", scheduler.actor());
  *waits = false;
  if (!options.standby) {
    scrapes = process.announce(families);
  }
  stop.wait();
  log.line("stopping", "");
  exit_within(exit_time, log); // the threads that write the state are waited for, and a disk may hang
  scheduler.stop();
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-scheduler", argc, argv, troupe::run);
}

// troupe-scheduler: membership, admission and placement of a cluster.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/type_ids.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "services/process/cluster_link.hpp"
#include "services/process/metrics_page.hpp"
#include "services/process/process_log.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"
#include "services/scheduler/scheduler_service.hpp"

namespace troupe {
namespace {

int run(const std::vector<std::string>& arguments) {
  link_options link;
  link.listen = "127.0.0.1:7000";
  link.name = "scheduler-0";
  scheduler_options options;
  option_parser parser("troupe-scheduler",
                       "Admits requests, assigns them, and places the experts of a cluster.");
  options.declare(parser);
  link.declare(parser, /*is_scheduler=*/true, /*is_gateway=*/false);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  stop_signal stop;
  process_log log(link.name);
  caf::actor_system_config config;
  configure(config);
  configure_transport(config);
  caf::actor_system system(config);
  transport peers(system, make_transport_options(link, "", log));
  auto families = std::make_shared<metrics::registry>(link.metrics_prefix);
  auto events = [log](const char* name, const std::string& text) { log.line(name, text); };
  scheduler_service scheduler(system, options,
                              std::make_shared<metrics::scheduler_families>(families, events));
  peers.publish("scheduler", scheduler.actor());
  log.line("listening", peers.endpoint());
  auto scrapes = serve_metrics(link, families, log);
  report_ready(link, peers.endpoint());
  stop.wait();
  log.line("stopping", "");
  scheduler.stop();
  return 0;
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-scheduler", argc, argv, troupe::run);
}

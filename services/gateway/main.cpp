// troupe-gateway: the REST API of a cluster.
#include <chrono>
#include <csignal>
#include <memory>

#include "services/cluster/cluster_entry.hpp"
#include "services/cluster/cluster_process.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/gateway/http/early_pages.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/model/flag_notes.hpp"
#include "services/options/model_folder.hpp"
#include "services/startup/exit_deadline.hpp"
#include "services/startup/role_frame.hpp"
#include "services/startup/role_main.hpp"
#include "services/startup/startup.hpp"

namespace troupe {
namespace {

int run(const std::vector<std::string>& arguments) {
  model_options model;
  cluster_options cluster;
  cluster.name = "gateway-0";
  gateway_options options;
  log_options logs;
  trace_options traces;
  option_parser parser("troupe-gateway", "Serves the REST API of a cluster.");
  declare_model_folder(parser, &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/true);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  role_frame frame(parser, logs, traces, cluster.name);
  const process_log& log = frame.log;
  check_outside(options);
  auto families = metrics::make_registry(options.metrics_prefix, model.model_name());
  metrics::show_build(*families, "");
  auto early = http::open_early_pages(
      options, [] { return std::string{}; }, families);
  auto starting = std::make_unique<stop_while_starting>(log);
  model_source source = open_model_config(model);
  log_clamped(model, source, log);
  cluster.reload_interval_s = options.reload_interval_s;
  // An empty fingerprint matches any model: the scheduler compares the config.json of gateways instead.
  cluster_process process(cluster, "gateway", "", log, frame.reload);
  process.show_traffic(*families);
  gateway_service gateway(process.site(worker_role::gateway), source, model, options, "none",
                          std::move(early), std::move(families), frame.reload);
  process.peers().publish(cluster.name, gateway.actor());
  gateway.join();
  starting.reset();
  const std::string url = options.url(gateway.http_port());
  log.line("listening", url + ", peers at " + process.peers().endpoint(),
           {{"model", model.model_name()}, {"url", url}});
  report_ready(cluster, url);
  const bool at_terminal = frame.stop.wait() == SIGINT; // started by hand, without a load balancer
  const std::chrono::seconds lame_duck{at_terminal ? 0 : options.lame_duck};
  log.line("stopping", "serves on for " + std::to_string(lame_duck.count())
                           + " s, then running requests have " + std::to_string(options.drain_timeout)
                           + " s to end");
  exit_within(lame_duck + std::chrono::seconds{options.drain_timeout} + exit_margin, log);
  gateway.stop(lame_duck, std::chrono::seconds{options.drain_timeout});
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-gateway", argc, argv, troupe::run);
}

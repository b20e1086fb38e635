// troupe-gateway: the REST API of a cluster.
#include <chrono>
#include <csignal>

#include "services/gateway/gateway_service.hpp"
#include "services/process/cluster_entry.hpp"
#include "services/process/cluster_process.hpp"
#include "services/process/exit_deadline.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/reload_signal.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"
#include "services/timeline/trace_writer.hpp"

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
  parser.positional("MODEL_DIR", "Hugging Face model folder: tokenizer, chat template, config",
                    &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/true);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  stop_signal stop;
  configure_logs(logs);
  process_log log(cluster.name);
  reload_signal reload(log);
  const trace_writer tracing(traces, log);
  log_unread_variables(parser, log);
  model_source source = open_model(model, plan_use::opens);
  log_ignored(source, log);
  log_clamped(model, source, log);
  cluster_process process(cluster, "gateway", source.fingerprint, log);
  auto families = process.make_families(options.metrics_prefix, model.model_name(), "");
  gateway_service gateway(process.site(worker_role::gateway), source, model, options, "none",
                          std::move(families), reload);
  process.peers().publish(cluster.name, gateway.actor());
  gateway.join();
  const std::string url = options.url(gateway.http_port());
  log.line("listening", url + ", peers at " + process.peers().endpoint(),
           {{"model", model.model_name()}, {"url", url}});
  report_ready(cluster, url);
  const bool at_terminal = stop.wait() == SIGINT; // no load balancer has to hear of it
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

// troupe-gateway: the REST API of a cluster.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/defaults.hpp"
#include "actors/type_ids.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/process/cluster_link.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {
namespace {

int run(const std::vector<std::string>& arguments) {
  model_options model;
  link_options link;
  link.name = "gateway-0";
  gateway_options options;
  option_parser parser("troupe-gateway", "Serves the REST API of a cluster.");
  parser.positional("MODEL_DIR", "Hugging Face model folder: tokenizer, chat template, config",
                    &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  link.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/true);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  stop_signal stop;
  process_log log(link.name);
  model_source source = open_model(model);
  caf::actor_system_config config;
  configure(config);
  configure_transport(config);
  caf::actor_system system(config);
  transport peers(system, make_transport_options(link, source.fingerprint, log));
  service_site site{system,
                    peers.actor(),
                    link.scheduler,
                    {draw_worker_id(), worker_role::gateway, link.name, peers.endpoint()},
                    log};
  auto families = std::make_shared<metrics::registry>(
      options.metrics_prefix, metrics::labels{{"model_name", served_model_name(model, options)}});
  gateway_service gateway(site, source, model, options, "none", std::move(families));
  peers.publish(link.name, gateway.actor());
  gateway.join();
  std::string url = "http://" + options.host + ":" + std::to_string(gateway.http_port());
  log.line("listening", url + ", peers at " + peers.endpoint());
  report_ready(link, url);
  stop.wait();
  log.line("stopping", "running requests may end");
  gateway.stop(defaults::drain);
  return 0;
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-gateway", argc, argv, troupe::run);
}

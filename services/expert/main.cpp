// troupe-expert: an expert worker of a cluster.
#include <memory>
#include <optional>

#include "actors/defaults.hpp"
#include "actors/expert/weights_sender.hpp"
#include "kernels/model/peer_weights.hpp"
#include "services/expert/expert_service.hpp"
#include "services/metrics/expert_families.hpp"
#include "services/process/cluster_model.hpp"
#include "services/process/cluster_process.hpp"
#include "services/process/compute.hpp"
#include "services/process/exit_deadline.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"
#include "services/timeline/trace_writer.hpp"

namespace troupe {
namespace {

weight_origin origin_of(const model_options& model, const expert_options& options) {
  if (options.weights_from == "files") {
    return weight_origin::files;
  }
  if (!model::has_weights(model.model_dir)) {
    return weight_origin::peers;
  }
  return options.weights_from == "peers" ? weight_origin::peers_then_files : weight_origin::files;
}

int run(const std::vector<std::string>& arguments) {
  model_options model;
  cluster_options cluster;
  cluster.name = "expert-0";
  expert_options options;
  log_options logs;
  trace_options traces;
  option_parser parser("troupe-expert", "Holds experts of a model and computes batches of tokens for them.");
  parser.positional("MODEL_DIR", "Hugging Face model folder", &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  stop_signal stop;
  configure_logs(logs);
  process_log log(cluster.name);
  const trace_writer tracing(traces, log);
  log_unread_variables(parser, log);
  const auto origin = origin_of(model, options);
  model_source source;
  std::shared_ptr<compute_queue> queue; // outlives the actors
  if (origin != weight_origin::peers) {
    source = open_model(model);
    queue = make_compute_queue(model, source.plan, log);
  } else {
    model::load_config(model.model_dir); // a folder without even that is told of at once
  }
  // Without a fingerprint, which goes with any: until the scheduler has told it.
  cluster_process process(cluster, "expert", source.fingerprint, log);
  auto site = process.site(worker_role::expert);
  if (origin == weight_origin::peers) {
    auto known = ask_cluster_model(site);
    if (!known) {
      return stop_signal::exit_status();
    }
    source = open_model_of_peers(model, known->fingerprint, known->numerics_class);
    queue = make_compute_queue(model, source.plan, log);
    log.line("weights-from-peers",
             model.model_dir + " has no weights; model " + known->fingerprint + ", " + known->numerics_class);
  }
  auto families = process.make_families(cluster.metrics_prefix, model.model_name(), source.numerics_class);
  expert_service expert(site, source, queue, options, expert_peers::possible, origin,
                        std::make_shared<metrics::expert_families>(families));
  process.peers().publish(cluster.name, expert.actor());
  process.peers().publish(weights_service(cluster.name), expert.sender());
  expert.join();
  auto scrapes = process.announce(families, probes_of(expert.pulse()));
  stop.wait();
  log.line("stopping", "");
  exit_within(defaults::drain + exit_margin, log);
  expert.stop(defaults::drain);
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-expert", argc, argv, troupe::run);
}

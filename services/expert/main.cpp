// troupe-expert: an expert worker of a cluster.
#include <memory>
#include <optional>

#include "actors/expert/weights_sender.hpp"
#include "kernels/model/peer_weights.hpp"
#include "services/cluster/cluster_model.hpp"
#include "services/cluster/cluster_process.hpp"
#include "services/expert/expert_service.hpp"
#include "services/metrics/expert_families.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/model/compute.hpp"
#include "services/model/flag_notes.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/memory_limit.hpp"
#include "services/options/model_folder.hpp"
#include "services/startup/exit_deadline.hpp"
#include "services/startup/role_frame.hpp"
#include "services/startup/role_main.hpp"
#include "services/startup/startup.hpp"

namespace troupe {
namespace {

weight_origin origin_of(const model_options& model, const expert_options& options) {
  if (options.weights_from == "files")
    return weight_origin::files;
  if (!model::has_weights(model.model_dir))
    return weight_origin::peers;
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
  declare_model_folder(parser, &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  parser.text("topology", "NAME",
              "location of this worker, such as its node or rack; replicas of an expert are placed at "
              "different locations while these have room",
              &options.topology);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  role_frame frame(parser, logs, traces, cluster.name);
  const process_log& log = frame.log;
  startup start(cluster, cluster.metrics_prefix, model.model_name(), log);
  metrics::show_load(*start.families(), [load = start.load()] { return load->bytes(); });
  const auto origin = origin_of(model, options);
  model_source source;
  std::shared_ptr<compute_queue> queue; // outlives the actors
  if (origin != weight_origin::peers) {
    source = open_model(model, plan_use::computes, start.load());
    queue = make_compute_queue(model, source.plan, log);
  } else {
    model::load_config(model.model_dir); // to report a folder without a config at once
  }
  // An empty fingerprint matches any model. The scheduler sends the right one later.
  cluster_process process(cluster, "expert", source.fingerprint, log, frame.reload);
  auto site = process.site(worker_role::expert);
  if (origin == weight_origin::peers) {
    start.load()->begin("waiting-for-model", "the scheduler is to say which model the cluster has");
    auto known = ask_cluster_model(site);
    start.load()->end();
    if (!known)
      return stop_signal::exit_status();
    source = open_model_of_peers(model, known->fingerprint, known->numerics_class);
    queue = make_compute_queue(model, source.plan, log);
    log.line("weights-from-peers",
             model.model_dir + " has no weights; model " + known->fingerprint + ", " + known->numerics_class);
  }
  metrics::show_build(*start.families(), source.numerics_class);
  process.show_traffic(*start.families());
  expert_service expert(site, source, queue, options, expert_peers::possible, origin,
                        memory_budget(find_memory_limit()), start.load(),
                        std::make_shared<metrics::expert_families>(start.families()));
  process.peers().publish(cluster.name, expert.actor());
  process.peers().publish(weights_service(cluster.name), expert.sender());
  expert.join();
  start.done(probes_of(expert.pulse()));
  process.announce(start.endpoint());
  frame.stop.wait();
  const auto drain = announce_drain(cluster, log);
  exit_within(drain + exit_margin, log);
  expert.stop(drain);
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-expert", argc, argv, troupe::run);
}

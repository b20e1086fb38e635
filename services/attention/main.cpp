// troupe-attention: an attention worker of a cluster.
#include "services/attention/attention_service.hpp"
#include "services/cluster/cluster_process.hpp"
#include "services/log/request_lines.hpp"
#include "services/metrics/attention_families.hpp"
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

int run(const std::vector<std::string>& arguments) {
  model_options model;
  cluster_options cluster;
  cluster.name = "attention-0";
  attention_options options;
  log_options logs;
  trace_options traces;
  option_parser parser(
      "troupe-attention",
      "Runs the attention side of a model: KV cache, router, sampling, continuous batching.");
  declare_model_folder(parser, &model.model_dir);
  model.declare(parser);
  options.declare(parser);
  cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  role_frame frame(parser, logs, traces, cluster.name);
  const process_log& log = frame.log;
  startup start(cluster, cluster.metrics_prefix, model.model_name(), log);
  metrics::show_load(*start.families(), [load = start.load()] { return load->bytes(); });
  model_source source = open_model(model, plan_use::computes, start.load());
  log_ignored(source, log);
  log_clamped(model, source, log);
  auto queue = make_compute_queue(model, source.plan, log); // outlives the actors
  cluster_process process(cluster, "attention", source.fingerprint, log, frame.reload);
  metrics::show_build(*start.families(), source.numerics_class);
  process.show_traffic(*start.families());
  memory_budget budget(find_memory_limit());
  attention_service attention(
      process.site(worker_role::attention), source, queue, model, options, budget, start.load(),
      std::make_shared<metrics::attention_families>(
          start.families(), [log](const request_event& event) { log_request(log, event); }));
  process.peers().publish(cluster.name, attention.actor());
  attention.join();
  start.done(probes_of(attention.pulse()));
  process.announce(start.endpoint());
  frame.stop.wait();
  const auto drain = announce_drain(cluster, log);
  exit_within(drain + exit_margin, log);
  attention.stop(drain);
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-attention", argc, argv, troupe::run);
}

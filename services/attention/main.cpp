// troupe-attention: an attention worker of a cluster.
#include "actors/defaults.hpp"
#include "services/attention/attention_service.hpp"
#include "services/metrics/attention_families.hpp"
#include "services/process/cluster_process.hpp"
#include "services/process/compute.hpp"
#include "services/process/exit_deadline.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/request_lines.hpp"
#include "services/process/role_main.hpp"
#include "services/process/stop_signal.hpp"
#include "services/timeline/trace_writer.hpp"

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
  model_source source = open_model(model);
  log_clamped(model, source, log);
  auto queue = make_compute_queue(model, source.plan, log); // outlives the actors
  cluster_process process(cluster, "attention", source.fingerprint, log);
  auto families = process.make_families(cluster.metrics_prefix, model.model_name(), source.numerics_class);
  attention_service attention(process.site(worker_role::attention), source, queue, model, options,
                              std::make_shared<metrics::attention_families>(
                                  families, [log](const request_event& event) { log_request(log, event); }));
  process.peers().publish(cluster.name, attention.actor());
  attention.join();
  auto scrapes = process.announce(families, probes_of(attention.pulse()));
  stop.wait();
  log.line("stopping", "");
  exit_within(defaults::drain + exit_margin, log);
  attention.stop(defaults::drain);
  return stop_signal::exit_status();
}

} // namespace
} // namespace troupe

int main(int argc, char** argv) {
  return troupe::role_main("troupe-attention", argc, argv, troupe::run);
}

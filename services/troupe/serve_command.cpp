#include <chrono>
#include <csignal>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/defaults.hpp"
#include "actors/type_ids.hpp"
#include "services/attention/attention_service.hpp"
#include "services/expert/expert_service.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/metrics/attention_families.hpp"
#include "services/metrics/expert_families.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/metrics/rebalancer_families.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "services/metrics/state_disk_watch.hpp"
#include "services/process/cluster_entry.hpp"
#include "services/process/compute.hpp"
#include "services/process/exit_deadline.hpp"
#include "services/process/flag_notes.hpp"
#include "services/process/log_options.hpp"
#include "services/process/reload_signal.hpp"
#include "services/process/request_lines.hpp"
#include "services/process/stop_signal.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/timeline/trace_writer.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

namespace {

/// The directory of this process, ended with the object.
class process_directory {
 public:
  explicit process_directory(caf::actor_system& system) : actor_(system.spawn(local_directory)) {}

  ~process_directory() { caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown); }

  process_directory(const process_directory&) = delete;
  process_directory& operator=(const process_directory&) = delete;

  template <class Handle>
  void publish(const std::string& name, const Handle& actor) {
    caf::anon_send(actor_, caf::publish_atom_v, name, caf::actor_cast<caf::strong_actor_ptr>(actor));
  }

  directory_actor actor() const { return actor_; }

 private:
  local_directory_actor actor_;
};

} // namespace

int serve_command(const std::vector<std::string>& arguments) {
  model_options model;
  gateway_options gateway_flags;
  attention_options attention_flags;
  expert_options expert_flags;
  scheduler_options scheduler_flags;
  log_options logs;
  trace_options traces;
  option_parser parser("troupe serve",
                       "Serves a model over an OpenAI-compatible REST API, all in one process.");
  parser.positional("MODEL_DIR", "Hugging Face model folder", &model.model_dir);
  gateway_flags.declare(parser);
  model.declare(parser);
  attention_flags.declare(parser);
  expert_flags.declare(parser, /*has_peers=*/false);
  // The one expert worker of this process: the scheduler would wait for further ones for ever.
  scheduler_flags.declare(parser, expert_worker_count::fixed);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  stop_signal stop;
  configure_logs(logs);
  process_log log("troupe");
  reload_signal reload(log);
  const trace_writer tracing(traces, log);
  log_unread_variables(parser, log);
  model_source source = open_model(model);
  log.line("model-opened",
           source.config.architecture + ", " + source.weights->description() + ", " + source.numerics_class);
  log_ignored(source, log);
  log_clamped(model, source, log);
  log_clamped(scheduler_flags, log);
  check_history(scheduler_flags, source.fingerprint);
  auto queue = make_compute_queue(model, source.plan, log); // outlives the actors
  caf::actor_system_config config;
  configure(config);
  set_actor_threads(config);
  caf::actor_system system(config);
  process_directory directory(system);
  auto site = [&](worker_role role, const std::string& name) {
    return service_site{system, directory.actor(), {}, {draw_worker_id(), role, name, ""}, log};
  };
  auto families =
      metrics::make_registry(gateway_flags.metrics_prefix, model.model_name(), source.numerics_class);
  auto events = [log](const char* name, const std::string& text) { log.line(name, text); };
  auto requests = [log](const request_event& event) { log_request(log, event); };
  std::optional<succession> from;
  if (!scheduler_flags.state_dir.empty()) {
    from = take_state(scheduler_flags, "troupe", {});
    if (!from) {
      return stop_signal::exit_status();
    }
  }
  std::optional<metrics::state_disk_watch> disk;
  if (!scheduler_flags.state_dir.empty()) {
    disk.emplace(scheduler_flags.state_dir, families);
  }
  scheduler_service scheduler(
      system, scheduler_flags, std::make_shared<metrics::scheduler_families>(families, events, requests),
      std::make_shared<metrics::rebalancer_families>(families, events), std::move(from));
  attention_service attention(site(worker_role::attention, "attention-0"), source, queue, model,
                              attention_flags,
                              std::make_shared<metrics::attention_families>(families, requests));
  // After the attention side: experts have what it leaves of a GPU.
  expert_service expert(site(worker_role::expert, "expert-0"), source, queue, expert_flags,
                        expert_peers::none, weight_origin::files,
                        std::make_shared<metrics::expert_families>(families));
  gateway_service gateway(site(worker_role::gateway, "gateway-0"), source, model, gateway_flags,
                          kernels::name_of(queue->instruction_set()), families, reload);
  directory.publish("history", scheduler.history());
  directory.publish("rebalancer", scheduler.rebalancer());
  directory.publish("scheduler", scheduler.actor());
  directory.publish("expert-0", expert.actor());
  directory.publish("attention-0", attention.actor());
  directory.publish("gateway-0", gateway.actor());
  expert.join();
  attention.join();
  gateway.join();
  const std::string url = gateway_flags.url(gateway.http_port());
  log.line("listening", url, {{"model", model.model_name()}, {"url", url}});
  const bool at_terminal = stop.wait() == SIGINT; // no load balancer has to hear of it
  const bool fault = stop_signal::exit_status() != 0;
  const std::chrono::seconds lame_duck{at_terminal || fault ? 0 : gateway_flags.lame_duck};
  const std::chrono::seconds drain{fault ? 0 : gateway_flags.drain_timeout};
  log.line("stopping", "serves on for " + std::to_string(lame_duck.count())
                           + " s, then running requests have " + std::to_string(drain.count()) + " s to end");
  exit_within(lame_duck + drain + exit_margin, log);
  // From the edge inwards: what still runs needs everything behind it.
  // After a fault nothing that waits can end.
  gateway.stop(lame_duck, drain);
  attention.stop(std::chrono::seconds{1});
  expert.stop(std::chrono::milliseconds{0});
  scheduler.stop();
  return stop_signal::exit_status();
}

} // namespace troupe

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/type_ids.hpp"
#include "services/attention/attention_service.hpp"
#include "services/attention/kv_room.hpp"
#include "services/cluster/cluster_entry.hpp"
#include "services/expert/expert_room.hpp"
#include "services/expert/expert_service.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/gateway/http/early_pages.hpp"
#include "services/log/request_lines.hpp"
#include "services/metrics/attention_families.hpp"
#include "services/metrics/expert_families.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/metrics/rebalancer_families.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "services/metrics/state_disk_watch.hpp"
#include "services/model/compute.hpp"
#include "services/model/flag_notes.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/memory_limit.hpp"
#include "services/options/model_folder.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/startup/exit_deadline.hpp"
#include "services/startup/role_frame.hpp"
#include "services/startup/startup.hpp"
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
  declare_model_folder(parser, &model.model_dir);
  gateway_flags.declare(parser);
  model.declare(parser);
  attention_flags.declare(parser);
  expert_flags.declare(parser, /*has_peers=*/false);
  // The one expert worker of this process: the scheduler would wait for further ones for ever.
  scheduler_flags.declare(parser, expert_worker_count::fixed);
  logs.declare(parser);
  traces.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  role_frame frame(parser, logs, traces, "troupe");
  const process_log& log = frame.log;
  check_outside(gateway_flags);
  check_state_dir(scheduler_flags);
  auto families = metrics::make_registry(gateway_flags.metrics_prefix, model.model_name());
  auto load = std::make_shared<load_progress>(log);
  metrics::show_load(*families, [load] { return load->bytes(); });
  auto early = http::open_early_pages(
      gateway_flags, [load] { return load->text(); }, families);
  auto starting = std::make_unique<stop_while_starting>(log);
  model_source source = open_model(model, plan_use::computes, load);
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
  metrics::show_build(*families, source.numerics_class);
  auto events = [log](const char* name, const std::string& text) { log.line(name, text); };
  auto requests = [log](const request_event& event) { log_request(log, event); };
  std::optional<succession> from;
  if (!scheduler_flags.state_dir.empty()) {
    from = take_state(scheduler_flags, "troupe", {});
    if (!from)
      return stop_signal::exit_status();
  }
  std::optional<metrics::state_disk_watch> disk;
  if (!scheduler_flags.state_dir.empty())
    disk.emplace(scheduler_flags.state_dir, families);
  scheduler_service scheduler(
      system, scheduler_flags, std::make_shared<metrics::scheduler_families>(families, events, requests),
      std::make_shared<metrics::rebalancer_families>(families, events), std::move(from));
  memory_budget budget(find_memory_limit());
  if (attention_flags.kv_cache_memory == 0) { // else it would take what the experts need
    const bool is_cpu = source.device.kind == model::device_kind::cpu;
    attention_flags.kv_cache_memory =
        is_cpu ? shared_kv_cache_bytes(budget, bytes_in_process(*source.cpu_weights), 1)
               : usual_kv_cache_bytes;
  }
  attention_service attention(site(worker_role::attention, "attention-0"), source, queue, model,
                              attention_flags, budget, load,
                              std::make_shared<metrics::attention_families>(families, requests));
  // After the attention side: experts have what it leaves of a GPU.
  expert_service expert(site(worker_role::expert, "expert-0"), source, queue, expert_flags,
                        expert_peers::none, weight_origin::files, budget, load,
                        std::make_shared<metrics::expert_families>(families));
  gateway_service gateway(site(worker_role::gateway, "gateway-0"), source, model, gateway_flags,
                          kernels::name_of(queue->instruction_set()), std::move(early), families,
                          frame.reload);
  directory.publish("history", scheduler.history());
  directory.publish("rebalancer", scheduler.rebalancer());
  directory.publish("scheduler", scheduler.actor());
  directory.publish("expert-0", expert.actor());
  directory.publish("attention-0", attention.actor());
  directory.publish("gateway-0", gateway.actor());
  expert.join();
  attention.join();
  gateway.join();
  starting.reset();
  const std::string url = gateway_flags.url(gateway.http_port());
  log.line("listening", url, {{"model", model.model_name()}, {"url", url}});
  const bool at_terminal = frame.stop.wait() == SIGINT; // no load balancer has to hear of it
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

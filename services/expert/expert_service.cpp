#include "services/expert/expert_service.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <caf/actor.hpp>
#include <caf/send.hpp>

#include "actors/engine/model_expert_engine.hpp"
#include "kernels/model/error.hpp"
#include "services/expert/expert_room.hpp"
#include "services/model/compute.hpp"
#include "services/model/lost_device.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

/// Logs the room that follows from a device or a memory limit, and a wanted size that may not fit.
void tell_room(const model::expert_backend& backend, std::uint64_t wanted, std::uint64_t room, bool is_alone,
               const memory_budget& budget, const process_log& log) {
  if (wanted == 0 && room != 0) {
    log.line(
        "expert-room",
        (backend.place() == model::expert_residence::device ? "the GPU has" : budget.text() + ": there is")
            + " room for " + mebibytes_text(room) + " of experts");
  }
  if (backend.place() == model::expert_residence::device)
    return;
  const auto safe = expert_room_within(budget, sizes_of_experts(backend), is_alone);
  if (wanted > safe) {
    log.line("expert-room-tight", "--expert-memory is " + mebibytes_text(wanted) + ", and " + budget.text()
                                      + ": full queues leave " + mebibytes_text(safe) + " for experts");
  }
}

} // namespace

expert_service::expert_service(const service_site& site, const model_source& source,
                               std::shared_ptr<compute_queue> queue, const expert_options& options,
                               expert_peers peers, weight_origin origin, const memory_budget& budget,
                               std::shared_ptr<load_progress> load,
                               std::shared_ptr<expert_host_metrics> metrics)
    : site_(site) {
  log_gpu_refused(source, site.log);
  model_expert_config engine;
  engine.shape = shape_of(source);
  engine.backend =
      make_backend(source, queue->context(), {.expert_memory = options.gpu_expert_memory})->make_experts();
  const bool is_alone = peers == expert_peers::none;
  const auto sizes = sizes_of_experts(*engine.backend);
  const auto memory = expert_room_of(
      *engine.backend,
      {.wanted = options.expert_memory, .is_alone = is_alone, .from_workers = origin != weight_origin::files},
      budget);
  tell_room(*engine.backend, options.expert_memory, memory, is_alone, budget, site.log);
  engine.queue = std::move(queue);
  const bool has_files = origin != weight_origin::peers;
  engine.has_files = has_files;
  engine.progress = [load, bytes = sizes.largest](std::size_t loaded, std::size_t total) {
    load->begin("loading-experts", "loading " + std::to_string(total) + " experts");
    load->reached(loaded * bytes, total * bytes);
    if (loaded == total)
      load->end();
  };
  engine.failed = [log = site.log, load, peers, has_files](const std::exception& error, bool has_any) {
    load->end();
    if (!has_files) { // a peer may have the weights later
      log.line("experts-not-fetched", error.what());
      return;
    }
    const bool is_written_again = dynamic_cast<const model::cache_damaged*>(&error) != nullptr;
    if (peers == expert_peers::none || !has_any || is_written_again) {
      log.line("experts-unusable", error.what());
      stop_signal::raise_fault();
    }
  };
  engine.device_lost = end_for_lost_device(site.log);
  expert_host_config host;
  host.address = site.address;
  host.expert_memory_bytes = memory;
  host.max_queued_rows = queued_rows_within(budget, sizes, is_alone);
  host.linger = std::chrono::microseconds{options.linger_us};
  host.engine = make_model_expert_engine(std::move(engine));
  host.weights = origin;
  host.topology = options.topology;
  if (peers == expert_peers::possible) {
    weights_sender_config sender;
    sender.engine = host.engine;
    sender.metrics = metrics;
    sender_ = spawn_weights_sender(site.system, std::move(sender));
  }
  if (origin != weight_origin::files) {
    weights_fetcher_config fetcher;
    fetcher.reader = site.address.id;
    fetcher.fingerprint = source.fingerprint;
    fetcher.numerics_class = source.numerics_class;
    fetcher.directory = site.directory;
    fetcher.has_files = has_files;
    fetcher.metrics = metrics;
    fetcher_ = spawn_weights_fetcher(site.system, std::move(fetcher));
    host.fetcher = fetcher_;
  }
  host.metrics = std::move(metrics);
  actor_ = spawn_expert_host(site.system, std::move(host));
}

expert_service::~expert_service() {
  stop(std::chrono::milliseconds{0});
}

void expert_service::join() {
  membership_.emplace(site_, caf::actor_cast<caf::strong_actor_ptr>(actor_), pulse_);
}

void expert_service::stop(std::chrono::milliseconds patience) {
  if (membership_)
    membership_->stop(patience);
  actor_ = nullptr;
  for (const auto& actor : {caf::actor_cast<caf::actor>(sender_), caf::actor_cast<caf::actor>(fetcher_)})
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  sender_ = nullptr;
  fetcher_ = nullptr;
}

} // namespace troupe

#include "services/expert/expert_service.hpp"

#include <string>
#include <utility>

#include <caf/actor.hpp>
#include <caf/send.hpp>

#include "actors/engine/model_expert_engine.hpp"
#include "kernels/model/error.hpp"
#include "services/expert/expert_room.hpp"
#include "services/process/compute.hpp"
#include "services/process/lost_device.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

expert_service::expert_service(const service_site& site, const model_source& source,
                               std::shared_ptr<compute_queue> queue, const expert_options& options,
                               expert_peers peers, weight_origin origin,
                               std::shared_ptr<expert_host_metrics> metrics)
    : site_(site) {
  log_gpu_refused(source, site.log);
  model_expert_config engine;
  engine.shape = shape_of(source);
  engine.backend =
      make_backend(source, queue->context(), {.expert_memory = options.gpu_expert_memory})->make_experts();
  const auto memory = expert_room_of(*engine.backend, options.expert_memory, peers == expert_peers::none);
  if (memory != options.expert_memory) {
    site.log.line("expert-room", "the GPU has room for " + std::to_string(memory >> 20) + " MiB of experts");
  }
  engine.queue = std::move(queue);
  const bool has_files = origin != weight_origin::peers;
  engine.has_files = has_files;
  engine.progress = [log = site.log, start = std::chrono::steady_clock::now(),
                     told = std::chrono::steady_clock::time_point{}](size_t loaded, size_t total) mutable {
    // Once a second, and at the end of what took longer than that.
    auto now = std::chrono::steady_clock::now();
    if (loaded == 1) {
      start = told = now;
    }
    bool due = now - told >= std::chrono::seconds{1};
    if (due || (loaded == total && told != start)) {
      told = now;
      log.line("loading-experts", std::to_string(loaded) + " of " + std::to_string(total));
    }
  };
  engine.failed = [log = site.log, peers, has_files](const std::exception& error, bool has_any) {
    if (!has_files) { // what no worker has now, one may have later
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
  host.linger = std::chrono::microseconds{options.linger_us};
  host.engine = make_model_expert_engine(std::move(engine));
  host.weights = origin;
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
  if (membership_) {
    membership_->stop(patience);
  }
  actor_ = nullptr;
  for (const auto& actor : {caf::actor_cast<caf::actor>(sender_), caf::actor_cast<caf::actor>(fetcher_)}) {
    if (actor) {
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    }
  }
  sender_ = nullptr;
  fetcher_ = nullptr;
}

} // namespace troupe

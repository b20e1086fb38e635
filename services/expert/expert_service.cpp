#include "services/expert/expert_service.hpp"

#include <utility>

#include "actors/engine/model_expert_engine.hpp"
#include "kernels/model/error.hpp"
#include "services/process/compute.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

expert_service::expert_service(const service_site& site, const model_source& source,
                               std::shared_ptr<compute_queue> queue, const expert_options& options,
                               expert_peers peers, std::shared_ptr<expert_host_metrics> metrics)
    : site_(site) {
  log_gpu_refused(source, site.log);
  model_expert_config engine;
  engine.shape = shape_of(source);
  engine.backend = make_backend(source, queue->context())->make_experts();
  engine.queue = std::move(queue);
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
  engine.failed = [log = site.log, peers](const std::exception& error, bool has_any) {
    const bool is_written_again = dynamic_cast<const model::cache_damaged*>(&error) != nullptr;
    if (peers == expert_peers::none || !has_any || is_written_again) {
      log.line("experts-unusable", error.what());
      stop_signal::raise_fault();
    }
  };
  expert_host_config host;
  host.address = site.address;
  host.expert_memory_bytes = options.expert_memory;
  host.linger = std::chrono::microseconds{options.linger_us};
  host.engine = make_model_expert_engine(std::move(engine));
  host.metrics = std::move(metrics);
  actor_ = spawn_expert_host(site.system, std::move(host));
}

void expert_service::join() {
  membership_.emplace(site_, caf::actor_cast<caf::strong_actor_ptr>(actor_));
}

void expert_service::stop(std::chrono::milliseconds patience) {
  if (membership_) {
    membership_->stop(patience);
  }
  actor_ = nullptr;
}

} // namespace troupe

#include "services/cluster/cluster_model.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>

#include <caf/scoped_actor.hpp>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

/// @param problem  why there is no answer
std::optional<cluster_model> ask_scheduler(const service_site& site, const std::string& endpoint,
                                           std::string& problem) {
  std::optional<cluster_model> result;
  caf::scoped_actor self(site.system);
  auto failed = [&](const caf::error& error) { problem = text_of(error); };
  scheduler_actor scheduler;
  self->request(site.directory, defaults::scheduler_probe, caf::resolve_atom_v, endpoint,
                std::string{"scheduler"})
      .receive(
          [&](const caf::strong_actor_ptr& handle) { scheduler = caf::actor_cast<scheduler_actor>(handle); },
          failed);
  if (!scheduler)
    return result;
  self->request(scheduler, defaults::connect_timeout, status_atom_v)
      .receive(
          [&](const scheduler_status& status) {
            auto found = std::find_if(status.workers.begin(), status.workers.end(), [](const auto& worker) {
              return worker.address.role == worker_role::expert;
            });
            if (found == status.workers.end())
              problem = "the cluster has no expert worker yet";
            else
              result = cluster_model{status.fingerprint, found->numerics_class};
          },
          failed);
  return result;
}

} // namespace

std::optional<cluster_model> ask_cluster_model(const service_site& site) {
  std::string told;
  for (std::size_t attempt = 0; !stop_signal::is_pending(); ++attempt) {
    const auto& endpoints = site.scheduler_endpoints;
    std::string problem;
    if (auto model = ask_scheduler(site, endpoints[attempt % endpoints.size()], problem))
      return model;
    if (std::exchange(told, problem) != problem) {
      site.log.line("waiting-for-model",
                    "no weights here; the scheduler is to say which model the cluster has: " + problem);
    }
    std::this_thread::sleep_for(defaults::reconnect_max / 2);
  }
  return std::nullopt;
}

} // namespace troupe

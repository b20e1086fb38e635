#include "services/cluster/membership.hpp"

#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/protocol/error.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

/// Timeout for the end of a worker actor.
constexpr auto end_patience = std::chrono::seconds{5};

} // namespace

membership::membership(const service_site& site, caf::strong_actor_ptr worker,
                       std::shared_ptr<member_pulse> pulse)
    : system_(site.system),
      worker_(std::move(worker)),
      member_(spawn_member(site.system, {.role = site.address.role,
                                         .scheduler_endpoints = site.scheduler_endpoints,
                                         .directory = site.directory,
                                         .worker = worker_,

                                         .seed = site.address.id.value,
                                         .pulse = std::move(pulse)})),
      log_(site.log) {
  auto* member = caf::actor_cast<caf::strong_actor_ptr>(member_)->get();
  member->attach_functor([log = log_](const caf::error& reason) {
    if (code_of(reason) == ec::incompatible) {
      log.line("refused", text_of(reason));
      stop_signal::raise_fault();
    }
  });
}

membership::~membership() {
  stop(std::chrono::milliseconds{0});
}

metrics::probes probes_of(std::shared_ptr<const member_pulse> pulse) {
  return {.why_not_ready = [pulse] { return pulse->why_not_ready(); },
          .flaw = [pulse] { return pulse->flaw(member_pulse::clock::now()); }};
}

void membership::stop(std::chrono::milliseconds patience, const std::function<void()>& when_left) {
  if (std::exchange(stopped_, true))
    return;
  caf::scoped_actor self(system_);
  if (patience.count() > 0) {
    self->request(member_, patience, caf::leave_atom_v)
        .receive([] {}, [&](const caf::error& error) { log_.line("left-early", text_of(error)); });
    if (when_left)
      when_left();
  }
  auto member = caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(member_));
  auto worker = caf::actor_cast<caf::actor>(worker_);
  std::size_t running = 0;
  for (const auto& handle : {member, worker}) {
    self->monitor(handle);
    self->send_exit(handle, caf::exit_reason::user_shutdown);
    ++running;
  }
  bool in_time = true;
  while (running > 0 && in_time) {
    self->receive([&](const caf::down_msg&) { --running; },
                  caf::after(end_patience) >> [&] { in_time = false; });
  }
  if (!in_time)
    log_.line("stuck", "an actor did not end in time");
  worker_ = nullptr;
  member_ = nullptr;
}

} // namespace troupe

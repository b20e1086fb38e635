// A member between a scripted worker and a scripted scheduler.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/member.hpp"
#include "actors/cluster/member_pulse.hpp"
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {

/// Handles all messages to workers.
using any_worker_actor =
    caf::typed_actor<caf::reacts_to<cluster_view>, caf::replies_to<caf::join_atom>::with<worker_hello>,
                     caf::replies_to<load_atom>::with<lease_renewal>,
                     caf::replies_to<host_order>::with<host_report>,
                     caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>>;

struct worker_log {
  std::vector<cluster_view> views;
  std::vector<host_order> orders;
  std::vector<bool> schedulers; ///< found, lost, ...
  bool answers_load = true;
  std::uint64_t running = 3;
  std::uint64_t runs = 0;
  bool is_used = false; ///< it computes something between two questions
};

struct silent_state {
  static inline const char* name = "any_worker";
  std::vector<caf::typed_response_promise<lease_renewal>> open;
};

inline any_worker_actor::behavior_type any_worker(any_worker_actor::stateful_pointer<silent_state> self,
                                                  worker_hello hello, std::shared_ptr<worker_log> log) {
  return {
      [log](const cluster_view& view) { log->views.push_back(view); },
      [hello](caf::join_atom) { return hello; },
      [self, hello, log](load_atom) -> caf::result<lease_renewal> {
        lease_renewal load;
        load.running = log->running;
        if (hello.address.role == worker_role::expert)
          load.of_role = expert_load{{.runs = log->is_used ? ++log->runs : log->runs}};
        if (log->answers_load) {
          for (auto& late : std::exchange(self->state.open, {}))
            late.deliver(load);
          return load;
        }
        return self->state.open.emplace_back(self->make_response_promise<lease_renewal>());
      },
      [log](const host_order& order) {
        log->orders.push_back(order);
        return host_report{order.term, order.order, order.experts, {}};
      },
      [log](scheduler_atom, const caf::strong_actor_ptr& scheduler) {
        log->schedulers.push_back(scheduler != nullptr);
      },
  };
}

struct scheduler_log {
  std::uint64_t term = 1;
  caf::error refusal;
  bool answers_joins = true;
  bool answers_leaves = true;
  bool tells_ready = true;
  std::vector<worker_hello> hellos;
  std::vector<lease_renewal> renewals;
  std::vector<worker_id> leaves;
  shared_view_change whole; ///< the answer to a missed change; none at epoch 0
  std::vector<worker_id> asked_whole;
  member_actor member; ///< the last that joined
};

struct fake_scheduler_state {
  static inline const char* name = "fake_scheduler";
  std::vector<caf::typed_response_promise<worker_welcome>> open;
  std::vector<caf::typed_response_promise<caf::unit_t>> leaving;
  std::vector<caf::typed_response_promise<shared_view_change>> open_views;
};

/// A change from one epoch to another; from 0 the whole view, without layers.
inline shared_view_change change_of(std::uint64_t term, std::uint64_t from_epoch, std::uint64_t epoch) {
  view_change change;
  change.term = term;
  change.from_epoch = from_epoch;
  change.epoch = epoch;
  return shared_view_change{change};
}

inline shared_view_change view_of(std::uint64_t term, std::uint64_t epoch) {
  return change_of(term, 0, epoch);
}

inline scheduler_actor::behavior_type
fake_scheduler(scheduler_actor::stateful_pointer<fake_scheduler_state> self,
               std::shared_ptr<scheduler_log> log) {
  return {
      [self, log](caf::join_atom, const worker_hello& hello) -> caf::result<worker_welcome> {
        log->hellos.push_back(hello);
        log->member = caf::actor_cast<member_actor>(self->current_sender());
        if (!log->answers_joins)
          return self->state.open.emplace_back(self->make_response_promise<worker_welcome>());
        if (log->refusal)
          return log->refusal;
        return worker_welcome{log->term, "model-a", view_of(log->term, 1), log->tells_ready};
      },
      [log](const lease_renewal& load) { log->renewals.push_back(load); },
      [self, log](caf::leave_atom, worker_id id) -> caf::result<void> {
        log->leaves.push_back(id);
        if (log->answers_leaves)
          return caf::unit;
        return self->state.leaving.emplace_back(self->make_response_promise<caf::unit_t>());
      },
      [self, log](view_atom, worker_id id) -> caf::result<shared_view_change> {
        log->asked_whole.push_back(id);
        if (log->whole->epoch == 0)
          return self->state.open_views.emplace_back(self->make_response_promise<shared_view_change>());
        return log->whole;
      },
      [](const admission_request&) -> caf::result<assignment> { return make_error(ec::not_ready, "fake"); },
      [](done_atom, request_id) {},
      [](done_atom, request_id, std::uint32_t) {},
      [](caf::tick_atom) {},
      [](gather_atom) {},
      [](status_atom) { return scheduler_status{}; },
  };
}

class member_test : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    directory = root(system.spawn(local_directory));
  }

  void TearDown() override {
    schedule->member = nullptr;
    deterministic_system::TearDown();
  }

  void start_member(worker_role role = worker_role::expert) {
    auto hello = expert_hello(11);
    hello.address.role = role;
    worker = root(system.spawn(any_worker, hello, log));
    member_config config;
    config.role = role;
    config.directory = directory;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.pulse = pulse;
    member = root(spawn_member(system, config));
    advance(std::chrono::milliseconds{1}); // its first look is a timer
  }

  void start_scheduler() {
    scheduler = root(system.spawn(fake_scheduler, schedule));
    caf::anon_send(directory, caf::publish_atom_v, std::string{"scheduler"},
                   caf::actor_cast<caf::strong_actor_ptr>(scheduler));
    run();
  }

  template <class... Parts>
  void from_scheduler(Parts... parts) {
    caf::anon_send(member, std::move(parts)...);
    run();
  }

  /// Asks the member to leave; is_gone is set at its answer.
  void leave() {
    root(system.spawn([this](caf::event_based_actor* self) -> caf::behavior {
      self->request(member, caf::infinite, caf::leave_atom_v).then([this] { is_gone = true; });
      return {[](int) {}};
    }));
    run();
  }

  bool is_gone = false;
  local_directory_actor directory;
  any_worker_actor worker;
  member_actor member;
  scheduler_actor scheduler;
  std::shared_ptr<worker_log> log = std::make_shared<worker_log>();
  std::shared_ptr<scheduler_log> schedule = std::make_shared<scheduler_log>();
  std::shared_ptr<member_pulse> pulse = std::make_shared<member_pulse>();

  std::string flaw() { return pulse->flaw(coordinator.clock().now()); }
};

} // namespace troupe

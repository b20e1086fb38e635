// State of the scheduler actor. It hands messages to the desks that decide, and sends what they have decided.
// Each desk has data and tests of its own and knows no actors.
//
//   member_table, failure_detector, recovery_watch   workers that are here, dead, expected back
//   departure_desk                                   workers that leave
//   term_ledger, save_schedule                       the term, the lease on the state directory, when to save
//   request_desk                                     requests that wait or have a place
//   expert_desk, host_orders, move_desk              which worker should hold which expert, and does
//   view_desk                                        what attention workers and gateways are sent
//   trace_desk                                       what is traced
//
// Two objects speak with other actors: member_links with members and gateways, state_directory with the disk.
// scheduler.cpp has the messages and their promises.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/scheduler/departure_desk.hpp"
#include "actors/scheduler/expert_desk.hpp"
#include "actors/scheduler/failure_detector.hpp"
#include "actors/scheduler/host_orders.hpp"
#include "actors/scheduler/member_links.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/move_desk.hpp"
#include "actors/scheduler/recovery_watch.hpp"
#include "actors/scheduler/request_desk.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "actors/scheduler/state_directory.hpp"
#include "actors/scheduler/term_ledger.hpp"
#include "actors/scheduler/trace_desk.hpp"
#include "actors/scheduler/view_desk.hpp"

namespace troupe {

struct scheduler_state {
  using pointer = scheduler_interface::stateful_pointer<scheduler_state>;

  static inline const char* name = "scheduler";

  void start(pointer actor, scheduler_config settings, scheduler_storage storage);

  caf::expected<worker_welcome> join(const worker_hello& hello, const caf::strong_actor_ptr& sender);
  void renew(const lease_renewal& load, const caf::strong_actor_ptr& sender);
  void leave(worker_id id, departure_desk::answer let_go);
  void admit(const admission_request& request, const caf::strong_actor_ptr& owner,
             request_desk::answer reply);
  /// @param num_tokens  of its answer, of several on average; 0: unknown
  void done(request_id id, std::uint32_t num_tokens = 0);
  void tick();
  /// Changes have been gathered for long enough.
  void gathered();
  /// A member or a gateway actor has ended, for `reason`.
  void down(const caf::actor_addr& source, const caf::error& reason);
  void shut_down();
  scheduler_status status() const;
  /// The whole published view, for a worker that has missed a change of it.
  caf::expected<shared_view_change> view_of(worker_id id);
  fleet_ptr describe_fleet();
  void move_expert(const expert_move& move, move_desk::answer when_over);
  void set_drained(std::set<std::string> names);

  void set_activity(expert_activity_ptr rows) { experts_.set_activity(std::move(rows)); }

  void trace(const trace_command& command, std::function<void(const trace_receipt&)> reply);

 private:
  time_point now() const { return self_->clock().now(); }

  bool is_recovering() { return recovery_.is_recovering(now()); }

  void report(const std::optional<operator_event>& event) const;
  void count_workers() const;

  // Members.
  /// Declares a worker dead though it is still connected: it has to join again.
  void fence(const failure_detector::verdict& dead);
  void remove_worker(worker_id id, const std::string& why);
  /// Answers the workers that leave and on which nothing depends any more.
  void finish_departures();
  /// Are there no gateways and no requests, and do all expert workers leave?
  bool whole_cluster_goes();
  void raise_term(std::uint64_t above, const std::string& by);
  stored_cluster snapshot() const;

  // Changes of members and placement.
  /// Does at once what the last message made possible for requests, departures and moves.
  void step();
  /// Members or placement have changed: acts when more changes have been gathered.
  void act_soon();
  void gather();
  /// Acts now, unless a view was published just before.
  void act_at_once();
  /// From what has changed to target, publication and orders.
  void act();
  void publish();
  void give_order(worker_id id);
  void order_done(worker_id id, std::uint64_t order, const host_report* report, const std::string& error);

  pointer self_ = nullptr;
  scheduler_config config_;
  member_links links_;
  state_directory disk_;
  bool is_gathering_ = false; // gather_atom is on its way

  member_table members_;
  failure_detector failures_;
  recovery_watch recovery_;
  term_ledger terms_;
  std::optional<request_desk> requests_;
  expert_desk experts_;
  departure_desk departures_;
  host_orders orders_;
  move_desk moves_;
  view_desk views_;
  trace_desk traces_;
};

} // namespace troupe

// The state of the scheduler actor: between messages and the pure parts that decide (members, admission,
// placement). What becomes of a change of members or placement is in scheduler_state_rollout.cpp; what others
// are sent of it, in scheduler_state_views.cpp; who is dead though connected, in scheduler_state_fencing.cpp;
// who is waited for after a restart, in scheduler_state_recovery.cpp; the lease and what is saved, in
// scheduler_state_storage.cpp; what a planner asks for, in scheduler_state_moves.cpp;
// what is traced, in scheduler_state_tracing.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/cluster/member.hpp"
#include "actors/cluster/trace_control.hpp"
#include "actors/scheduler/admission_policy.hpp"
#include "actors/scheduler/hang_policy.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/placement_target.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "actors/scheduler/view_publisher.hpp"

namespace troupe {

/// A worker for people: its name, and where it is.
std::string described(const worker_address& address);

/// Experts that a host can hold; UINT64_MAX: any number.
uint64_t max_experts_of(const worker_hello& hello);

struct scheduler_state {
  using interface = scheduler_actor::extend_with<fleet_actor>::extend_with<trace_control_actor>;
  using pointer = interface::stateful_pointer<scheduler_state>;

  static inline const char* name = "scheduler";

  /// A worker's member actor, and the one host order that may be on its way to it.
  struct contact {
    member_actor member;
    uint64_t order = 0; ///< the newest
    bool in_flight = false;
    time_point retry_at;
    std::chrono::milliseconds pause = defaults::reconnect_min;
  };

  /// A worker that waits to be let go.
  struct departure {
    caf::typed_response_promise<caf::unit_t> promise;
    time_point deadline;
  };

  /// An expert on its way, as a planner has asked.
  struct pending_move {
    caf::typed_response_promise<caf::unit_t> promise;
    std::vector<worker_id> to;   ///< ascending
    std::vector<worker_id> from; ///< likewise
    uint64_t begin_ns = 0;       ///< where it is traced
  };

  /// Who asked for a request's place.
  struct ownership {
    caf::actor_addr actor; ///< the gateway actor, as long as it is under monitor for this request
    worker_id gateway;     ///< of a gateway that has not said so: 0
    std::optional<time_point> kept_until; ///< the way to the gateway is lost: it may come back until then
    request_context context;              ///< empty for one that was adopted
    uint32_t attempt = 0;                 ///< likewise 0
  };

  void start(pointer actor, scheduler_config settings, scheduler_storage storage);

  caf::result<worker_welcome> join(const worker_hello& hello, const caf::strong_actor_ptr& sender);
  void renew(const lease_renewal& load, const caf::strong_actor_ptr& sender);
  caf::result<void> leave(worker_id id);
  /// @param owner  by value: a promise takes the sender away from the message
  caf::result<assignment> admit(const admission_request& request, caf::strong_actor_ptr owner);
  /// @param num_tokens  of its answer, of several on average; 0: nobody says
  void done(request_id id, uint32_t num_tokens = 0);
  void tick();
  /// What has been gathered is to be acted on.
  void gathered();
  /// A member or a gateway has ended, for `reason`.
  void down(const caf::actor_addr& source, const caf::error& reason);
  void shut_down();
  scheduler_status status() const;
  /// The whole published view, for a worker that has missed a change of it.
  caf::result<shared_view_change> view_of(worker_id id);
  fleet_ptr describe_fleet();
  caf::result<void> move_expert(const expert_move& move);
  void set_drained(std::set<std::string> names);
  caf::result<trace_receipt> trace(const trace_command& command);

 private:
  time_point now() const { return self_->clock().now(); }

  void event(const char* what, const std::string& text) const;
  void count_workers() const;
  void trace_move(expert_id expert, const pending_move& move, bool is_done) const;
  void request_event_of(request_id id, const char* what, const std::string& text) const;

  void raise_term(uint64_t above, const std::string& name);
  void adopt_model();
  void add_host(const worker_hello& hello);

  // Recovery.
  void begin_recovery();
  void watch_recovery(const worker_hello& hello);
  bool is_recovering();

  /// A member that joins traces as those that are here.
  void trace_as_told(const member_actor& joined);
  /// What the scheduler before was told holds on as soon as somebody of its cluster is back; a cluster that
  /// is started anew begins with its flags.
  void recall_trace(const worker_hello& hello);

  /// Gives up whom is still missed when it is time.
  void give_up_missed();

  // Lease and disk.
  /// Takes a term above the worker's and makes it durable. The worker may ask again, which the error says.
  caf::error take_newer_term(const worker_hello& hello);
  void renew_lease();
  void renewed_lease();
  void lease_failed(const caf::error& error);

  /// After a standstill another scheduler may have taken over: nothing is published until the lease has been
  /// renewed, or for reconnect_max where the disk does not answer.
  bool is_doubtful() const { return doubted_until_ && now() < *doubted_until_; }

  /// Saves what is published, or once what is being saved is through.
  void save();
  void save_later();
  void watch_disk();

  void remove_worker(worker_id id, const std::string& why);
  /// A worker whose engine hangs may not join.
  caf::error check_engine(const worker_hello& hello);
  /// False when the operator has been told of it already.
  bool tell_hung(worker_id id);
  void fence_hung(worker_id id, const engine_progress& engine);
  /// Declares a worker dead though it is still connected: it has to join again.
  void fence(worker_id id, fence_reason reason, const std::string& why);
  void fence_the_accused();
  /// Would the cluster go on without this worker?
  bool is_replaceable(worker_id id) const;
  /// Whether this process did not run just now, so that peers have taken it for dead.
  bool was_held_up() const;
  /// Waits for a worker that has lost its connection, as after a restart.
  void expect_back(worker_id id);
  void refuse(request_id id, const caf::error& error);
  /// A gateway that joins says which of its requests have places; of its others nothing is left.
  void adopt_places(const worker_hello& hello);
  /// The end of a gateway. @param is_cut  only the way to it has ended: what has a place keeps it for a lease
  void orphan(const std::function<bool(const ownership&)>& is_its, bool is_cut);
  /// Takes a request out, wherever it is, without giving its place to another yet.
  /// @param reason  what a question that waits is answered with
  void forget(request_id id, const caf::error& reason);

  /// Does at once what the last message made possible for requests and departures.
  void step();
  /// Something has changed that placement, view or orders depend on: act on it when more has come.
  void act_soon();
  /// Acts on it now, unless something has just been published.
  void act_at_once();
  /// From what has changed to target, publication and orders.
  void act();
  void publish();
  void broadcast();
  shared_view_change whole_view_of(worker_role role);
  void issue_orders();

  /// False when it has to wait: for the answer to the last one, or for a pause to pass.
  bool may_order(const contact& to) const { return !to.in_flight && now() >= to.retry_at; }

  void settle_if_stuck();
  /// An expert that nobody has loaded is given to a worker that has files, where only such as have none
  /// should hold it, and is free to move again once it is loaded.
  /// @returns whether the target has changed
  bool rescue_orphans();
  /// Who can give the host those of these experts that it has yet to load.
  std::vector<weight_source> sources_for(worker_id id, const std::vector<expert_id>& experts) const;
  void issue_order(worker_id id, contact& to, std::vector<expert_id> experts);
  void order_done(worker_id id, uint64_t order, const host_report* report, const std::string& error);
  void place_requests();
  void trace_place(request_id id, worker_id worker, std::chrono::nanoseconds waited) const;
  void finish_departures();
  /// Answers for moves that are done, or cannot be any more.
  void finish_moves();
  /// Gives up moves to a host that cannot carry them out: the experts stay where they were.
  void abandon_moves(worker_id host, const std::string& why);

  pointer self_ = nullptr;
  scheduler_config config_;
  cluster_store_writer_actor writer_;
  lease_keeper_actor keeper_;
  uint64_t term_ = 0;
  uint64_t epoch_ = 0;
  uint64_t last_order_ = 0; ///< of all workers: a worker that joins again must see a greater one

  member_table members_;
  time_point next_tick_;     ///< when it is due
  time_point held_up_until_; ///< until then, lost connections are blamed on our own pause
  admission_policy admission_{{}};
  std::vector<uint32_t> layer_experts_;                   ///< that target and rollout have been told
  placement_target target_{placement_target::settings{}}; ///< who should hold what
  /// Experts that are on their way to a host with files because nobody else could load them, and the hosts
  /// that a planner wants for each; empty: it has not said.
  std::map<expert_id, std::vector<worker_id>> rescued_;
  placement_rollout rollout_; ///< from there to who holds it
  std::map<worker_id, contact> contacts_;
  std::map<worker_id, departure> departures_;
  std::map<expert_id, pending_move> moves_;
  std::set<std::string> drained_; ///< names of workers that shall hold nothing
  std::set<worker_id> welcomed_;  ///< in this term
  hang_policy hangs_;
  std::optional<trace_command> tracing_; ///< what an operator has said
  std::optional<trace_command>
      told_before_;               ///< likewise, to the scheduler before; until the first publication
  std::set<worker_id> told_hung_; ///< the operator knows; until they join

  std::map<request_id, caf::typed_response_promise<assignment>> waiting_;
  std::map<request_id, ownership> owners_; ///< of requests that wait or have a place
  std::vector<caf::actor_addr> watched_;   ///< gateway actors under monitor

  std::optional<time_point> recovery_end_;
  time_point recovery_limit_;            ///< which nothing extends while it lasts
  std::vector<worker_address> expected_; ///< not back yet, of the last scheduler's workers or of this one's
  std::vector<worker_address> missed_;   ///< attention workers of those, from the recovery's end to its limit
  bool knows_workers_ = false;           ///< recovery ends early once all of expected_ are back
  bool has_target_ = false;
  bool is_gathering_ = false; ///< gather_atom is on its way
  bool has_settled_ = false;  ///< and nothing has changed since then
  std::optional<time_point> last_publication_;
  bool view_changed_ = false;              ///< workers came or went since the last publication
  std::optional<time_point> saving_since_; ///< a save is under way
  bool is_unsaved_ = false;                ///< and what is published is newer, or could not be saved
  time_point save_not_before_;             ///< after a failure
  bool has_told_slow_save_ = false;
  std::optional<time_point> renewing_since_; ///< a renewal of the lease is under way
  time_point renew_next_;
  std::optional<time_point> doubted_until_;
  bool has_told_lease_ = false; ///< that it could not be renewed
  bool is_raising_ = false;     ///< a newer term is being taken
  view_publisher view_publisher_;
  view_messages next_;                 ///< what leads to the view that is being published
  cluster_view published_;             ///< what members have been sent
  std::optional<view_messages> whole_; ///< of that, once somebody has needed it
};

} // namespace troupe

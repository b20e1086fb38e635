// State of the rebalancer actor. It translates messages into calls of pure policies.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rebalancer/change_steps.hpp"
#include "actors/rebalancer/host_speeds.hpp"
#include "actors/rebalancer/planning_worker.hpp"
#include "actors/rebalancer/rebalancer.hpp"
#include "actors/rebalancer/wanted_workers.hpp"

namespace troupe {

struct rebalancer_state {
  using pointer = rebalancer_actor::stateful_pointer<rebalancer_state>;
  using time_point = std::chrono::steady_clock::time_point;

  static inline const char* name = "rebalancer";

  void start(pointer actor, fleet_actor fleet, history_actor history, rebalancer_config config,
             planning_worker_actor worker, standing_orders orders);

  void tick();
  caf::result<placement_change> command(const placement_command& asked);
  rebalancer_status status() const;
  void shut_down();

 private:
  using promise = caf::typed_response_promise<placement_change>;

  struct running_change {
    placement_change what; ///< including its experts
    change_steps steps;
    std::map<expert_id, std::uint64_t> bytes; ///< to be loaded for each expert
    time_point begun;
    bool drains = false; ///< at its end the scheduler is told which workers must hold nothing
  };

  /// Gets the input of all questions one after the other: the fleet, and the history if requested.
  void with_fleet(std::function<void(const fleet_ptr&)> then, std::function<void(const caf::error&)> failed);
  void with_history(std::function<void(const history_snapshot&)> then,
                    std::function<void(const caf::error&)> failed);
  void with_plan(planning_task task, std::function<void(const planning_answer_ptr&)> then,
                 std::function<void(const caf::error&)> failed);

  time_point now() const { return self_->clock().now(); }

  void event(const char* what, const std::string& text) const;
  planning_task task_for(planning_task::goal what, const fleet_ptr& hosts, history_snapshot past) const;

  // Automatic looks.
  /// Learns from the hosts' work since the last look.
  /// @returns their load, in workers
  std::optional<double> observe(const fleet_ptr& hosts);
  void count_wanted(const fleet_ptr& hosts, std::optional<double> load);
  void look(const fleet_ptr& hosts);
  void judge(const fleet_ptr& hosts, const history_snapshot& past);
  /// Sends the activity at once: the scheduler needs it when memory is short.
  void tell_activity(const history_snapshot& past);
  void consider(const fleet_ptr& hosts, std::optional<double> imbalance);
  void plan_for(const std::string& reason, const fleet_ptr& hosts);
  void adopt(const std::string& reason, const fleet_ptr& hosts, const planning_answer& answer);

  // Commands.
  /// A look or a command is finished: start the next one.
  void end_round();
  void next_command();
  void refuse(promise& to, const caf::error& error);
  void obey(const placement_command& asked, standing_orders orders, const fleet_ptr& hosts, promise to);
  void accept(const placement_command& asked, const standing_orders& orders, const fleet_ptr& hosts,
              const planning_answer& answer, promise to);
  void save_orders(standing_orders orders, std::function<void()> then,
                   std::function<void(const caf::error&)> failed);
  void tell_drained();

  // Changes.
  placement_change described(const std::string& reason, const fleet& hosts,
                             const planning_answer& answer) const;
  void begin_change(placement_change what, const fleet& hosts, const planning_answer& answer, bool drains);
  void drive();
  void step_done(std::uint64_t change, expert_id expert, const caf::error& error);
  void end_change();
  change_progress_status progress_of(const running_change& change) const;

  pointer self_ = nullptr;
  fleet_actor fleet_;
  history_actor history_;
  planning_worker_actor worker_;
  rebalancer_config config_;
  standing_orders orders_;
  rebalance_policy policy_;
  host_speeds speeds_;
  std::map<worker_id, std::uint64_t> busy_; ///< ns, at the last look
  time_point looked_;                       ///< time of the last look
  std::uint32_t ticks_ = 0;
  bool is_busy_ = false; ///< requests of a look or a command are under way
  std::deque<std::pair<placement_command, promise>> waiting_;
  std::optional<promise> answering_; ///< of the command in progress
  std::uint64_t known_age_ms_ = 0;   ///< of the history at the last look
  std::uint64_t known_windows_ = 0;  ///< looks with new windows so far
  std::optional<double> imbalance_;
  wanted_workers wanted_;
  std::uint64_t last_change_ = 0;
  std::optional<running_change> running_;
  std::optional<change_progress_status> last_; ///< the last finished change
};

} // namespace troupe

// Which worker should hold which expert, and how far that is carried out: the target, its rollout, and the
// workers that are to hold nothing. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/fleet_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/placement_target.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "actors/scheduler/weight_rescue.hpp"

namespace troupe {

class expert_desk {
 public:
  /// @param min_hosts  expert workers that the first placement waits for
  explicit expert_desk(std::uint32_t num_replicas = 1, std::uint32_t min_hosts = 1);

  // Members.

  /// A worker has joined.
  /// @param layer_experts  [layers] of the cluster's model
  void joined(const worker_hello& hello, const std::vector<std::uint32_t>& layer_experts,
              const member_table& members);
  /// Forgets everything where these are another model's layers.
  void adopt_model(const std::vector<std::uint32_t>& layer_experts, const member_table& members);
  /// The worker leaves: it keeps what it has loaded until others have it.
  void retire(worker_id id);
  void removed(worker_id id);
  /// The workers with these names are to hold nothing.
  /// @returns nothing when the names are the same as before; else an event for each worker that it concerns
  std::optional<std::vector<operator_event>> set_drained(std::set<std::string> names,
                                                         const member_table& members);
  void set_activity(expert_activity_ptr rows);

  /// Is the worker leaving, or are workers of this name to hold nothing?
  bool takes_nothing(worker_id id, const std::string& name) const {
    return retired_.contains(id) || drained_.contains(name);
  }

  // Decisions.

  /// Repairs the target after what has changed, and hands it to the rollout. The first target needs
  /// `min_hosts`, or a worker that has experts loaded already.
  void repair(const member_table& members);

  bool has_target() const { return has_target_; }

  struct room_change {
    std::uint32_t num_without = 0; ///< experts for which no host has room
    std::optional<operator_event> event;
  };

  /// @returns what has changed since the last call
  std::optional<room_change> check_room();

  /// Members, target or rollout have changed, and full hosts may be able to exchange experts again.
  void changed() { has_settled_ = false; }

  /// Where full hosts wait for one another's room, everything is served first and balance gives way.
  /// @returns the event when that has changed the target
  std::optional<operator_event> settle(bool are_hosts_idle);

  /// Takes the expert workers that for the first time since they joined hold all that they should.
  std::vector<worker_id> take_ready();

  /// For planners. Without layers before the first target, and while `is_recovering`.
  fleet_ptr describe(const member_table& members, bool is_recovering, bool has_moves) const;

  placement_target& target() { return target_; }

  const placement_target& target() const { return target_; }

  placement_rollout& rollout() { return rollout_; }

  const placement_rollout& rollout() const { return rollout_; }

 private:
  void add_host(const worker_address& address, const expert_terms& host);
  loaded_lookup loaded() const;

  std::uint32_t num_replicas_;
  std::uint32_t min_hosts_;
  std::vector<std::uint32_t> layer_experts_; // that target and rollout have
  placement_target target_;                  // which hosts should hold each expert
  placement_rollout rollout_;                // from there to which hosts hold it
  weight_rescue rescue_;
  std::set<worker_id> retired_;
  std::set<std::string> drained_; // names
  std::set<worker_id> unready_;   // expert workers that have not held all that they should since they joined
  expert_activity_ptr activity_;  // null: not reported yet
  bool has_target_ = false;
  bool has_settled_ = false; // and nothing has changed since then
  std::uint32_t num_without_room_ = 0;
};

} // namespace troupe

// Which order each expert host works at, and when it may be given the next one. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"

namespace troupe {

class host_orders {
 public:
  /// A member joins, for the first time or again. An order that was on its way to it no longer counts.
  void joined(worker_id id) { hosts_[id] = {}; }

  void removed(worker_id id) { hosts_.erase(id); }

  /// False while the host works at an order, and for a pause after one that failed.
  bool may_order(worker_id id, time_point now) const { return hosts_.at(id).may_order(now); }

  /// Is every host without an order and without a pause?
  bool are_idle(time_point now) const;

  bool is_under_way(worker_id id) const { return hosts_.at(id).in_flight; }

  /// Begins the host's next order; nothing where the rollout has none for it.
  std::optional<host_order> next(worker_id id, std::uint64_t term, const member_table& members,
                                 placement_rollout& rollout);

  /// @returns the number of the order that the host is sent now
  std::uint64_t begin(worker_id id);

  /// The host has answered the order with this number, or has not.
  /// @returns false when it is not the host's newest one: the answer does not count
  bool end(worker_id id, std::uint64_t order);

  /// The order that ended was carried out.
  void succeeded(worker_id id);
  /// The order that ended failed: the next one waits, longer after each failure.
  void failed(worker_id id, time_point now);

 private:
  struct entry {
    std::uint64_t order = 0; ///< the newest
    bool in_flight = false;
    time_point retry_at;
    std::chrono::milliseconds pause = defaults::reconnect_min;

    bool may_order(time_point now) const { return !in_flight && now >= retry_at; }
  };

  std::map<worker_id, entry> hosts_; // all members
  std::uint64_t last_order_ = 0;     // of all hosts: one that joins again must see a greater number
};

/// The workers from which the host can get those of these experts that it has yet to load; none where it has
/// the model's files.
std::vector<weight_source> sources_for(worker_id id, const std::vector<expert_id>& experts,
                                       const member_table& members, const placement_rollout& rollout);

} // namespace troupe

// What attention workers and gateways are sent of the cluster: the whole view when they join, then what
// changes. Pure: time is a parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/view_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

/// One change of the view, in the forms that its receivers get.
struct view_messages {
  shared_view_change with_layers;    ///< attention workers
  shared_view_change without_layers; ///< gateways

  /// For a role that is sent views. Expert hosts are sent none: they go by their orders, which carry the
  /// term.
  const shared_view_change& of(worker_role role) const {
    return role == worker_role::attention ? with_layers : without_layers;
  }
};

/// All of `view`, for a worker that has no view yet, or too old a one.
view_messages whole_view(const cluster_view& view);

/// The event for a cluster that has become ready, or is not ready any more.
/// @param max_model_len  positions of the longest sequence that a worker takes
operator_event readiness_event(bool is_ready, const member_table& members, std::uint64_t max_model_len);

/// The published view. It remembers which workers have come and gone, so that two views need not be compared.
class view_desk {
 public:
  /// A worker has joined, for the first time or again, or is gone: a new view is to be published.
  void worker_changed(worker_id id);

  /// Something else in the view has changed.
  void changed() { has_changed_ = true; }

  /// A new term counts its epochs from the start.
  void restart_epochs();

  bool has_changed() const { return has_changed_; }

  /// The epoch of the publication that follows.
  std::uint64_t next_epoch() { return ++epoch_; }

  /// What a view says beside workers and experts.
  struct summary {
    bool ready = false;
    std::uint32_t max_model_len = 0;
  };

  /// Publishes the next view.
  /// @param missed  workers that are no members and stay in the view
  /// @returns what leads from the published view to the next one; everything where the published one is of
  /// another term
  view_messages publish(const placement_rollout::publication& next, const member_table& members,
                        summary now_is, const std::vector<worker_address>& missed, time_point now);

  const cluster_view& published() const { return published_; }

  bool has_published() const { return last_publication_.has_value(); }

  /// Has no view of this term been published?
  bool is_first() const { return epoch_ == 0; }

  /// Was a view published less than defaults::gather_changes ago?
  bool has_just_published(time_point now) const;

  /// The whole published view, for a worker of this role; empty for expert hosts.
  shared_view_change whole(worker_role role);

 private:
  view_messages change(const placement_rollout::publication& next, const member_table& members,
                       summary now_is, const std::vector<worker_address>& missed);

  std::set<worker_id> changed_workers_; // since the last publication
  bool has_changed_ = false;            // likewise
  std::uint64_t epoch_ = 0;
  std::optional<time_point> last_publication_;
  cluster_view published_;             // what members have been sent
  std::optional<view_messages> whole_; // of that, once somebody has needed it
};

} // namespace troupe

// What attention workers and gateways are sent: the whole view when they join, then what changes. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/view_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"

namespace troupe {

/// One change of the view, in the forms that its receivers get.
struct view_messages {
  shared_view_change with_layers;    ///< attention workers
  shared_view_change without_layers; ///< gateways

  /// Of a role that is sent views; expert hosts are not.
  const shared_view_change& of(worker_role role) const {
    return role == worker_role::attention ? with_layers : without_layers;
  }
};

/// All of `view`, for whoever has nothing yet, or too old a one.
view_messages whole_view(const cluster_view& view);

/// Remembers which workers have come and gone, so that two views need not be compared.
class view_publisher {
 public:
  /// Has joined, for the first time or again, or is gone.
  void worker_changed(worker_id id) { changed_workers_.insert(id); }

  /// What leads from the published view to the next one; everything where the published one is of another
  /// term. It is to be published before the next call.
  /// @param missed  workers that are no members and stay in the view; a change of these is a change of
  /// workers
  view_messages change(const cluster_view& published, const placement_rollout::publication& next,
                       const member_table& members, bool ready, uint32_t max_model_len,
                       const std::vector<worker_address>& missed = {});

 private:
  std::set<worker_id> changed_workers_; // since the last change
};

} // namespace troupe

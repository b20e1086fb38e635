// From one published view of the cluster to the next. Pure.
#pragma once

#include <cstdint>
#include <utility>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/view_messages.hpp"

namespace troupe {

/// Why a change cannot be applied to a view.
enum class view_misfit : uint8_t {
  none,
  term,   ///< it goes on from a view of another term
  epoch,  ///< it goes on from another view than this one, or leads nowhere
  layers, ///< they are out of range or out of order, or some would be missing
  workers ///< they are out of order, or one leaves that is not here
};

/// Applies `change`, or leaves the view as it is and says why. Costs in proportion to the change, but for the
/// list of workers, through which it goes once when any come or go.
[[nodiscard]] view_misfit apply(cluster_view& view, const view_change& change);

/// The newest view that is known, as changes of it arrive.
class held_view {
 public:
  enum class outcome : uint8_t {
    taken,  ///< it is in the view now
    old,    ///< it tells nothing new
    misfit, ///< one before it is missing: ask for the whole view
  };

  /// Changes of terms before `min_term` are old.
  outcome take(const view_change& change, uint64_t min_term);

  const cluster_view& view() const { return view_; }

  /// Has it been told of a newer view than the one it has?
  bool is_behind() const { return held() < newest_heard_; }

 private:
  using moment = std::pair<uint64_t, uint64_t>; // (term, epoch)

  moment held() const { return {view_.experts.term, view_.experts.epoch}; }

  cluster_view view_;
  moment newest_heard_; // of changes that did not fit
};

} // namespace troupe

// Applies changes to a published view of the cluster. Pure.
#pragma once

#include <cstdint>
#include <utility>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

/// Why a change does not fit a view.
enum class view_misfit : std::uint8_t {
  none,
  term,   ///< it starts from a view of another term
  epoch,  ///< it starts from another view, or leads to none
  layers, ///< out of range, out of order, or missing
  workers ///< out of order, or an unknown worker leaves
};

/// Applies `change`, or returns why not and keeps the view. The cost is proportional to the change; if
/// workers come or go, it includes one pass over the list of workers.
[[nodiscard]] view_misfit apply(cluster_view& view, const view_change& change);

/// The newest known view, built from arriving changes.
class held_view {
 public:
  enum class outcome : std::uint8_t {
    taken,  ///< applied
    old,    ///< not newer than the view
    misfit, ///< a change before it is missing: request the whole view
  };

  /// Applies a change; changes of terms before `min_term` are old.
  outcome take(const view_change& change, std::uint64_t min_term);

  const cluster_view& view() const { return view_; }

  /// Whether a newer view than this one was announced.
  bool is_behind() const { return held() < newest_heard_; }

 private:
  using moment = std::pair<std::uint64_t, std::uint64_t>; // (term, epoch)

  moment held() const { return {view_.experts.term, view_.experts.epoch}; }

  cluster_view view_;
  moment newest_heard_; // of the changes that did not fit
};

} // namespace troupe

// Workers that leave in order, and wait to be let go. Pure.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include <caf/error.hpp>

#include "actors/protocol/ids.hpp"

namespace troupe {

class departure_desk {
 public:
  using answer = std::function<void(const caf::error&)>; ///< no error: the worker may go

  /// The worker leaves. There is no deadline but its own: while it renews its lease it serves.
  void begin(worker_id id, answer let_go);

  /// @returns the workers that wait and that may go
  std::vector<worker_id> find(const std::function<bool(worker_id)>& may_go) const;

  /// The worker is no member any more: it is let go, if it waits.
  void removed(worker_id id);

  /// @param reason  none: all are let go
  void shut_down(const caf::error& reason);

 private:
  std::map<worker_id, answer> waiting_;
};

} // namespace troupe

// Which workers hang though their actors renew their leases, by what others say of them. (What a worker says
// of itself needs no policy: engine_progress::is_stalled.) Pure: time is a parameter.
//
// A silence has three possible causes: the worker that is silent, the way to it, and the one that complains.
// So a worker is accused only where its own renewals show no progress, and by enough of those who could
// complain.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

class hang_policy {
 public:
  struct accusation {
    worker_id worker;
    std::string why; ///< the rest of a sentence that begins with the worker
  };

  void joined(const worker_hello& hello, time_point now);
  void renewed(const lease_renewal& load, time_point now);

  void removed(worker_id id) { members_.erase(id); }

  /// Renewals could not be read for so long: nobody's lack of progress.
  void extend(time_point::duration by, time_point now);

  /// The next worker to be fenced for what others say of it. With L = max(defaults::engine_stall, the
  /// worker's own limit for a step), it is accused when
  /// - at least half of those who could complain of it (attention workers complain of expert
  ///   hosts, gateways of attention workers) have heard nothing from it for L, or one of them for
  ///   defaults::lone_complaint_factor × L, and
  /// - its own renewals have shown no progress for L: its engine has given no step back, and it did not wait
  ///   for expert hosts itself.
  /// Who complains of more than half of two or more workers is taken to be the trouble, and is not counted.
  /// One accusation per `defaults::lease`; none of a worker for which `is_replaceable` is false: then the
  /// cluster would lose what nobody else has, on hearsay.
  std::optional<accusation> next(time_point now, const std::function<bool(worker_id)>& is_replaceable);

 private:
  struct member {
    worker_role role = worker_role::expert;
    bool has_renewed = false;
    engine_progress engine;
    time_point progress; ///< when its renewals last showed any
    std::vector<complaint> complaints;
  };

  size_t count(worker_role role, bool has_renewed) const;

  std::map<worker_id, member> members_;
  std::optional<time_point> last_;
};

/// "12.3 s"
std::string seconds_text(uint64_t milliseconds);

} // namespace troupe

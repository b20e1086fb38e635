// Which workers hang although their actors renew their leases, judged by the complaints of other workers. (A
// worker's own report needs no policy: engine_progress::is_stalled.) Pure: time is a parameter.
//
// A silence has three possible causes: the silent worker, the way to it, and the worker that complains. So a
// worker is accused only if its own renewals show no progress, and if enough of the workers that could
// complain do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
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

  /// Renewals could not be read for this long: it does not count as lack of progress.
  void extend(time_point::duration by, time_point now);

  /// The next worker to be fenced because others complain of it. With L = max(defaults::engine_stall, the
  /// worker's own limit for a step), it is accused when
  /// - at least half of the workers that could complain of it (attention workers complain of expert
  ///   hosts, gateways of attention workers) have heard nothing from it for L, or one of them for
  ///   defaults::lone_complaint_factor × L, and
  /// - its own renewals have shown no progress for L: its engine has given no step back, and it did not wait
  ///   for expert hosts itself.
  /// A worker that complains of more than half of two or more workers is taken to be the cause, and is not
  /// counted. There is one accusation per `defaults::lease`. A worker for which `is_replaceable` is false is
  /// not accused: on hearsay the cluster would lose what no other worker has.
  std::optional<accusation> next(time_point now, const std::function<bool(worker_id)>& is_replaceable);

 private:
  struct member {
    worker_role role = worker_role::expert;
    bool has_renewed = false;
    engine_progress engine;
    time_point progress; ///< when its renewals last showed any
    std::vector<complaint> complaints;
  };

  std::size_t count(worker_role role, bool has_renewed) const;

  std::map<worker_id, member> members_;
  std::optional<time_point> last_;
};

/// "12.3 s"
std::string seconds_text(std::uint64_t milliseconds);

} // namespace troupe

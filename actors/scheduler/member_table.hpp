// The members of the cluster, their leases, and what they must have in common. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <caf/error.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/scheduler/model_identity.hpp"

namespace troupe {

using time_point = std::chrono::steady_clock::time_point;

/// A worker in texts for people: its name and where it is.
std::string described(const worker_address& address);

class member_table {
 public:
  struct member {
    worker_hello hello;
    lease_renewal load;
    time_point renewed;
    bool leaving = false;
  };

  explicit member_table(bool allow_inexact = false) : allow_inexact_(allow_inexact) {}

  /// Takes over the model that an earlier scheduler knew. Workers of another model replace it only while no
  /// member has a model.
  void restore(model_identity identity) { identity_ = std::move(identity); }

  const model_identity& identity() const { return identity_; }

  /// The numerics classes in which a request that is placed now is computed: `assignment::numerics`. Empty
  /// where workers of different ones may replace one another.
  std::string numerics() const {
    return allow_inexact_ ? std::string{} : identity_.attention_class + " " + identity_.expert_class;
  }

  /// May this worker join? The error names both sides: ec::incompatible for another fingerprint, layer
  /// graph or, from a gateway, config.json, another numerics class than the workers of its role or another
  /// arithmetic revision than those of the other one (unless inexact replicas are allowed), for an
  /// inconsistent hello, or for a role that this scheduler does not know; ec::not_ready while a live worker
  /// elsewhere has the same name.
  caf::error check(const worker_hello& hello) const;

  /// Adds or renews a worker that has passed `check`. An earlier worker of its name has been removed.
  void join(worker_hello hello, time_point now);

  /// The member that has this worker's name and another id.
  std::optional<worker_id> earlier_self(const worker_address& worker) const;

  /// Gateways that `check` would refuse now: they joined before the workers, with another config.json.
  std::vector<worker_id> foreign_gateways() const;

  /// @returns false when the worker is no member and has to join again
  bool renew(lease_renewal load, time_point now);

  /// Marks a worker that leaves in order.
  /// @returns false when it is no member
  bool leave(worker_id id);

  bool remove(worker_id id) { return members_.erase(id) > 0; }

  /// Lengthens every lease, at most to a whole one from `now`: renewals could not be read for this long.
  void extend(time_point::duration by, time_point now);

  /// Workers whose lease has run out; they are still in the table.
  std::vector<worker_id> expired(time_point now) const;

  const member* find(worker_id id) const;

  const std::map<worker_id, member>& all() const { return members_; }

  /// A row for each member. @param hosted  the experts that a worker has loaded
  std::vector<worker_status> describe(time_point now,
                                      const std::function<std::vector<expert_id>(worker_id)>& hosted) const;

  /// Members of a role that do not leave.
  std::size_t count(worker_role role) const;

 private:
  bool has_model() const;
  bool has_role(worker_role role) const;
  bool is_foreign(const worker_hello& gateway) const;

  bool allow_inexact_;
  model_identity identity_;
  std::map<worker_id, member> members_;
};

} // namespace troupe

// Who is in the cluster: members, their leases, and what they must have in common. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <caf/error.hpp>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/defaults.hpp"
#include "actors/scheduler/model_identity.hpp"

namespace troupe {

using time_point = std::chrono::steady_clock::time_point;

class member_table {
 public:
  struct member {
    worker_hello hello;
    lease_renewal load;
    time_point renewed;
    bool leaving = false;
  };

  explicit member_table(bool allow_inexact = false) : allow_inexact_(allow_inexact) {}

  /// Takes over what an earlier scheduler knew of the model. Workers of another model replace it only while
  /// no worker with a model is here.
  void restore(model_identity identity) { identity_ = std::move(identity); }

  const model_identity& identity() const { return identity_; }

  /// The numerics classes in which a request that is placed now is computed: `assignment::numerics`. Empty
  /// where workers of different ones may replace one another.
  std::string numerics() const {
    return allow_inexact_ ? std::string{} : identity_.attention_class + " " + identity_.expert_class;
  }

  /// May this worker join? The error names both sides: ec::incompatible for another fingerprint or layer
  /// graph, another numerics class than the workers of its role or another arithmetic revision than those of
  /// the other one (unless inexact replicas are allowed), or for a hello that cannot be; ec::not_ready while
  /// a live worker elsewhere has the same name.
  caf::error check(const worker_hello& hello) const;

  /// Adds or renews a worker that has passed `check`; whoever had its name before has been removed.
  void join(worker_hello hello, time_point now);

  /// False when the worker is not here and has to join again.
  bool renew(lease_renewal load, time_point now);

  /// Marks a worker that leaves in order; false when it is not here.
  bool leave(worker_id id);

  bool remove(worker_id id) { return members_.erase(id) > 0; }

  /// Lengthens every lease, to a whole one from `now` at most: for that long no renewal could be taken.
  void extend(time_point::duration by, time_point now);

  /// Workers whose lease has run out; they are still in the table.
  std::vector<worker_id> expired(time_point now) const;

  const member* find(worker_id id) const;

  const std::map<worker_id, member>& all() const { return members_; }

  /// Members of a role that do not leave.
  size_t count(worker_role role) const;

 private:
  bool has_model() const;
  bool has_role(worker_role role) const;

  bool allow_inexact_;
  model_identity identity_;
  std::map<worker_id, member> members_;
};

} // namespace troupe

// Requests that wait for a place: whose turn it is, and who has to go when there are too many. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/scheduler/admission_messages.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

/// A queue in which replays (attempt > 0) come first, then low priority values. Among new requests of one
/// priority, tenants take turns in proportion to their weights, and a tenant's own requests keep the order of
/// their arrival. A tenant that comes back after a pause has saved no turns up.
///
/// A request that finds no room when its turn has come keeps back those behind it of its own tenant, and
/// those of lower precedence. Requests of other tenants go before it for `defaults::overtaking`, then it
/// keeps everybody back. Replays do so at once. So what needs little does not wait for what needs much, and
/// what needs much gets its place.
class fair_queue {
 public:
  struct waiting {
    admission_request request;
    time_point since;
    time_point deadline;
    /// When the first request of another tenant went before it while it found no room.
    std::optional<time_point> overtaken;
  };

  /// What became of a request that was offered a place.
  enum class verdict {
    taken,   ///< it has one, and leaves the queue
    skipped, ///< it does not want one now: on to the next of its tenant
    no_room, ///< it waits for one
  };

  /// How many requests wait, and what they cost by `queue_bytes_of`.
  struct amount {
    uint64_t requests = 0;
    uint64_t bytes = 0;
  };

  /// Adds a request that is not in the queue.
  void add(const admission_request& request, time_point now);
  /// False when it is not there.
  bool remove(request_id id);

  bool contains(request_id id) const { return places_.contains(id); }

  size_t size() const { return places_.size(); }

  /// Of all that is not promised.
  const amount& new_requests() const { return new_; }

  /// Offers places in the order of turns, until nobody is left who may have one.
  void take_turns(time_point now, const std::function<verdict(const waiting&)>& offer);

  /// Takes those out whose deadline has come, in the order of precedence.
  std::vector<waiting> take_expired(time_point now);

  /// Who has to leave so that `request` fits in: the newest requests of the tenants that have most here for
  /// their weight, as long as each of these has more than the request's own tenant would. What is promised
  /// stays. Nothing when there is no room for it even so.
  /// @param is_full  whether so much is too much
  /// @param by_bytes whether bytes are what is short, not requests
  std::optional<std::vector<request_id>> displaced_by(const admission_request& request,
                                                      const std::function<bool(const amount&)>& is_full,
                                                      bool by_bytes) const;

 private:
  /// Replays first, then low priority values.
  using level_key = std::pair<bool, int32_t>;
  using request_map = std::map<uint64_t /* arrival */, waiting>;

  /// The requests of one tenant on one level, and when it is its turn again.
  struct line {
    request_map requests;
    uint64_t turn = 0;
  };

  using line_map = std::map<std::string, line>;

  struct level {
    line_map lines;
    size_t num_requests = 0;
    uint64_t turn = 0; ///< of whoever had a place last
  };

  struct place {
    level_key where;
    uint64_t arrival = 0;
    std::string tenant;
  };

  /// What a tenant has waiting that is not promised. The last one is displaced first.
  struct holding {
    amount total;
    uint32_t weight = 1; ///< as its latest request says
    std::map<std::pair<int32_t /* priority */, uint64_t /* arrival */>, request_id> requests;
  };

  bool serve(level& from, bool is_new, time_point now, const std::function<verdict(const waiting&)>& offer);
  void forget_idle(level& of) const;
  waiting take(level& from, line& of, request_map::iterator request);
  uint64_t bytes_of(request_id id) const;

  std::map<level_key, level> levels_;
  std::map<request_id, place> places_;
  std::map<std::string, holding> holdings_;
  amount new_;
  uint64_t next_arrival_ = 0;
};

} // namespace troupe

// The queue of requests that wait for a place: the order of turns, and which requests leave when there are
// too many. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/admission_messages.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

/// A queue in which replays (attempt > 0) come first, then low priority values. Among new requests of one
/// priority, tenants take turns in proportion to their weights, and a tenant's own requests keep the order of
/// their arrival. A tenant that comes back after a pause has saved no turns up.
///
/// A request that finds no room when its turn has come holds back all requests of lower precedence. Other
/// requests of its own level, of any tenant, may overtake it for `defaults::overtaking`, counted from the
/// first overtaking; then it holds back all others. A replay holds back all others at once. So small requests
/// need not wait for a large one, and cannot starve it. Of each tenant, `defaults::max_looked_past` requests
/// behind those without room are offered a place.
class fair_queue {
 public:
  struct waiting {
    admission_request request;
    time_point since;
    time_point deadline;
    std::uint64_t tokens = 0; ///< KV tokens that it is likely to need
    /// When another request first overtook it.
    std::optional<time_point> overtaken;
  };

  /// What became of a request that was offered a place.
  enum class verdict {
    taken,   ///< it has one, and leaves the queue
    skipped, ///< it does not want one now: on to the next of its tenant
    no_room, ///< there is no room for it: it goes on waiting
    full,    ///< there is no room for any request
  };

  /// How many requests wait, what they cost by `queue_bytes_of`, and what they will need of the KV cache.
  struct amount {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::uint64_t tokens = 0;

    amount& operator+=(const amount& other);
    amount& operator-=(const amount& other);

    friend amount operator+(amount l, const amount& r) { return l += r; }
  };

  /// An amount that can be too large.
  enum class measure { requests, bytes, tokens };

  /// Adds a request that is not in the queue.
  /// @param tokens        KV tokens that it is likely to need
  /// @param longest_wait  bounds its wait in addition to its own deadline; 0: no bound
  void add(const admission_request& request, time_point now, std::uint64_t tokens = 0,
           std::chrono::milliseconds longest_wait = {});
  /// @returns false when it is not in the queue
  bool remove(request_id id);

  bool contains(request_id id) const { return places_.contains(id); }

  std::size_t size() const { return places_.size(); }

  /// All requests that are not promised a place.
  const amount& new_requests() const { return new_; }

  /// Offers places in the order of turns, until no request is left that may have one.
  void take_turns(time_point now, const std::function<verdict(const waiting&)>& offer);

  /// Takes out the requests whose deadline has come, in the order of precedence.
  std::vector<waiting> take_expired(time_point now);

  /// The requests that have to leave so that `request` fits in: the newest ones of the tenants that have most
  /// in the queue for their weight, as long as each of these has more than the request's own tenant would
  /// have. Promised requests stay. Empty optional: the request does not fit in even so.
  /// @param own      the amount that the request adds
  /// @param is_full  whether an amount is too large
  /// @param by       the measure that is exceeded
  std::optional<std::vector<request_id>> displaced_by(const admission_request& request, const amount& own,
                                                      const std::function<bool(const amount&)>& is_full,
                                                      measure by) const;

 private:
  /// Replays first, then low priority values.
  using level_key = std::pair<bool, std::int32_t>;
  using request_map = std::map<std::uint64_t /* arrival */, waiting>;

  /// The requests of one tenant on one level, and when it is its turn again.
  struct line {
    request_map requests;
    std::uint64_t turn = 0;
  };

  using line_map = std::map<std::string, line>;

  struct level {
    line_map lines;
    std::size_t num_requests = 0;
    std::uint64_t turn = 0; ///< of the line that had a place last
  };

  struct place {
    level_key where;
    std::uint64_t arrival = 0;
    std::string tenant;
  };

  /// A tenant's waiting requests that are not promised. The last one is displaced first.
  struct holding {
    amount total;
    std::uint32_t weight = 1; ///< as its latest request says
    std::map<std::pair<std::int32_t /* priority */, std::uint64_t /* arrival */>, request_id> requests;
  };

  bool serve(level& from, bool is_new, time_point now, const std::function<verdict(const waiting&)>& offer);
  void forget_idle(level& of) const;
  waiting take(level& from, line& of, request_map::iterator request);
  amount amount_of(request_id id) const;

  std::map<level_key, level> levels_;
  std::map<request_id, place> places_;
  std::map<std::string, holding> holdings_;
  amount new_;
  std::uint64_t next_arrival_ = 0;
};

} // namespace troupe

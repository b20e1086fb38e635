// Requests that wait for a place: whose turn it is, and who has to go when there are too many. Pure.
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

#include "actors/scheduler/admission_messages.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

/// A queue in which replays (attempt > 0) come first, then low priority values. Among new requests of one
/// priority, tenants take turns in proportion to their weights, and a tenant's own requests keep the order of
/// their arrival. A tenant that comes back after a pause has saved no turns up.
///
/// A request that finds no room when its turn has come keeps back those of lower precedence. Others of its
/// own level, whoever's, go before it for `defaults::overtaking` from the first that does; then it keeps
/// everybody back. Replays do so at once. So what needs little does not wait for what needs much, and what
/// needs much gets its place. Of each tenant, `defaults::max_looked_past` requests behind those without room
/// are offered a place.
class fair_queue {
 public:
  struct waiting {
    admission_request request;
    time_point since;
    time_point deadline;
    uint64_t tokens = 0; ///< of KV cache, that it is likely to need
    /// When the first other request went before it while it found no room.
    std::optional<time_point> overtaken;
  };

  /// What became of a request that was offered a place.
  enum class verdict {
    taken,   ///< it has one, and leaves the queue
    skipped, ///< it does not want one now: on to the next of its tenant
    no_room, ///< it waits for one
    full,    ///< there is none for anybody
  };

  /// How many requests wait, what they cost by `queue_bytes_of`, and what they will need of the KV cache.
  struct amount {
    uint64_t requests = 0;
    uint64_t bytes = 0;
    uint64_t tokens = 0;

    amount& operator+=(const amount& other);
    amount& operator-=(const amount& other);

    friend amount operator+(amount l, const amount& r) { return l += r; }
  };

  /// Of which of these there is too much.
  enum class measure { requests, bytes, tokens };

  /// Adds a request that is not in the queue. @param tokens  of KV cache, that it is likely to need
  /// @param longest_wait  ends it before its own deadline does; 0: does not
  void add(const admission_request& request, time_point now, uint64_t tokens = 0,
           std::chrono::milliseconds longest_wait = {});
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
  /// @param own      what the request adds
  /// @param is_full  whether so much is too much
  /// @param by       what is short
  std::optional<std::vector<request_id>> displaced_by(const admission_request& request, const amount& own,
                                                      const std::function<bool(const amount&)>& is_full,
                                                      measure by) const;

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
  amount amount_of(request_id id) const;

  std::map<level_key, level> levels_;
  std::map<request_id, place> places_;
  std::map<std::string, holding> holdings_;
  amount new_;
  uint64_t next_arrival_ = 0;
};

} // namespace troupe

// Limits the connections of a server, and closes idle ones to make room for new ones.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "services/gateway/http/address_counts.hpp"
#include "services/options/network_address.hpp"

namespace troupe::http {

/// A place for each connection, with a limit in all and a limit for each peer. If all places are taken, the
/// connection that has been idle (no request in progress) for the longest time loses its place to a new one.
/// If a peer is at its limit, its own longest idle connection does. Every call takes constant time.
/// Thread-safe.
class connection_table {
 public:
  class place;

  enum class outcome {
    admitted,
    full,     ///< every place is taken, and every connection has a request in progress
    peer_full ///< the same, among the places of this peer
  };

  struct admission {
    outcome result = outcome::full;
    std::unique_ptr<place> taken; ///< null unless admitted
    bool made_room = false;       ///< an idle connection was closed
  };

  /// @param most           connections in all
  /// @param most_per_peer  connections of each peer; 0: no limit
  connection_table(std::size_t most, std::size_t most_per_peer);

  /// A place for a new connection, which is idle.
  /// @param peer  empty: not counted by peer
  admission admit(const std::optional<network_address>& peer);

  /// Number of connections that have a place.
  std::size_t size() const;

 private:
  struct entry;
  using entries = std::list<entry>;
  using idle_entries = std::list<entries::iterator>;

  struct entry {
    std::optional<network_address> peer;
    bool lost = false;
    std::function<void()> on_loss;
    idle_entries::iterator among_peers; ///< set for an idle entry that has a peer
  };

  /// Makes an entry idle, as the last one.
  void enter_idle(entries::iterator at);
  /// Call before an idle entry moves to another list.
  void leave_idle(entries::iterator at);
  /// Takes the place of an idle entry. @returns the function that tells its connection
  std::function<void()> take_place(entries::iterator victim);

  const std::size_t most_;
  mutable std::mutex mutex_;
  address_counts peers_;
  entries idle_; // the longest idle entry first
  std::unordered_map<network_address, idle_entries, network_address_hash>
      idle_by_peer_; // the longest idle entry first
  entries busy_;
  entries lost_; // until their connections have noticed
};

/// One connection's place; given back when it goes. The table outlives it.
class connection_table::place {
 public:
  place(connection_table& table, entries::iterator at) : table_(table), at_(at) {}

  ~place();
  place(const place&) = delete;
  place& operator=(const place&) = delete;

  /// Calls `close` once, from any thread, when this place goes to another connection; at once if it has gone
  /// already.
  void on_loss(std::function<void()> close);
  /// A request begins.
  /// @returns false when the place was lost; the request must not be answered
  bool begin_request();
  /// The request is over.
  void end_request();

 private:
  connection_table& table_;
  entries::iterator at_;
  bool busy_ = false; // changed by calls of the connection alone
};

} // namespace troupe::http

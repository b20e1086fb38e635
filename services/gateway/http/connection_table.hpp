// Who may have a connection, and whose is closed to make room for another one.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "services/gateway/http/address_counts.hpp"
#include "services/options/network_address.hpp"

namespace troupe::http {

/// The places of a server's connections: so many in all, so many of each peer. Where all are taken, the
/// connection that has had no request in progress for the longest time loses its place to a new one. Every
/// call takes constant time. Thread-safe.
class connection_table {
 public:
  class place;

  enum class outcome {
    admitted,
    full,     ///< every place is taken, and every connection has a request in progress
    peer_full ///< this peer has as many as one may have
  };

  struct admission {
    outcome result = outcome::full;
    std::unique_ptr<place> taken; ///< null unless admitted
    bool made_room = false;       ///< by closing an idle connection
  };

  /// @param most           connections in all
  /// @param most_per_peer  of one peer; 0: no limit
  connection_table(size_t most, size_t most_per_peer);

  /// A place for a new connection, which is idle.
  /// @param peer  nothing: not counted by peer
  admission admit(const std::optional<network_address>& peer);

  /// Connections that have a place.
  size_t size() const;

 private:
  struct entry {
    std::optional<network_address> peer;
    bool lost = false;
    std::function<void()> on_loss;
  };

  using entries = std::list<entry>;

  const size_t most_;
  mutable std::mutex mutex_;
  address_counts peers_;
  entries idle_; // the longest idle one first
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

  /// Calls `close` once, from any thread, when this place goes to another connection: at once when it has
  /// already.
  void on_loss(std::function<void()> close);
  /// A request has come. False: the place has been lost, the request must not be answered.
  bool begin_request();
  /// It is over.
  void end_request();

 private:
  connection_table& table_;
  entries::iterator at_;
  bool busy_ = false; // of the connection's own calls alone
};

} // namespace troupe::http

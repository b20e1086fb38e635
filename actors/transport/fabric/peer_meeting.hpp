// Protocol of connections: which peers are dialled, which of two connections to one peer stays, and when a
// silent peer is given up. It has no sockets, threads or clock: the real and the simulated fabric carry out
// what it decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/fabric.hpp"
#include "actors/transport/fabric/peer_connection.hpp"
#include "actors/transport/wire/handshake.hpp"

namespace troupe::wire {

/// The connections of one process. A restarted process is another peer: its node differs, even if its
/// endpoint is the same. Not thread-safe; `add` and `remove` change what `peers` returns.
class peer_meeting {
 public:
  /// Carries out decisions, before the call returns.
  class host {
   public:
    virtual ~host();

    /// Dials `endpoint`; ends in `keeps` or `missed`.
    /// @throws std::exception  if this is no endpoint
    virtual void dial(const std::string& endpoint) = 0;

    /// Gives up dialling `endpoint`, if it is being dialled, without a call of `missed`.
    virtual void stop_dialling(const std::string& endpoint) = 0;

    /// Whether the other side has closed the connection, although `fail` has not been called yet.
    virtual bool has_closed(const peer_connection_ptr& peer) const = 0;

    virtual void send_heartbeat(const peer_connection_ptr& peer) = 0;

    /// Ends a connection that is up, and calls `remove`.
    virtual void fail(const peer_connection_ptr& peer, const std::string& reason) = 0;
  };

  /// How often `tick` is called; the finest deadline is a handshake's, of seconds.
  static constexpr std::chrono::milliseconds tick_interval{50};

  /// @param settings  outlive this object, as `owner` does
  peer_meeting(const fabric_settings& settings, host& owner) : settings_(settings), owner_(owner) {}

  /// @param endpoint  of this process; empty if it does not listen
  void start(std::string endpoint, clock::time_point first_tick);

  const std::string& endpoint() const { return endpoint_; }

  // -- the beginning of connections -------------------------------------------

  /// What this process says of itself on the connection `token`.
  introduction introduce(std::uint64_t token) const;

  /// Finds the connection to `endpoint`, or dials it; calls `done` by the first tick after `deadline`.
  void connect(const std::string& endpoint, clock::time_point deadline, fabric::on_connected done);

  /// Decides on an authenticated peer that has dialled this process. If two processes dial each other, the
  /// connection stays that the process with the lower node has dialled.
  /// @returns the reason for a refusal, and a sentence
  std::optional<std::pair<refusal, std::string>> admit(const introduction& guest);

  /// Decides on a connection whose handshake has ended. Fails an older one to the same peer, or else gives
  /// the older one to those that asked for the new one.
  /// @param dialled  endpoint that this process dialled; empty if the peer did
  /// @returns whether the new connection stays
  bool keeps(const introduction& peer, const std::string& dialled);

  /// Adds a connection that is up.
  void add(const peer_connection_ptr& peer, clock::time_point now);

  /// Gives a connection to those that asked for an endpoint of its peer.
  void settle(const peer_connection_ptr& peer);

  /// Gives `result` to those that asked for `endpoint`, which is not dialled any more.
  void settle(const std::string& endpoint, const fabric::connection& result);

  /// Dialling `endpoint` has failed.
  /// @param reason  why the peer refused, if it did
  /// @param node    of the peer that refused
  void missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
              const std::string& node, clock::time_point now);

  /// Drops those that wait for connections, without an answer.
  void forget_attempts() { attempts_.clear(); }

  // -- connections that are up ------------------------------------------------

  const std::vector<peer_connection_ptr>& peers() const { return peers_; }

  void remove(const peer_connection_ptr& peer) { std::erase(peers_, peer); }

  clock::time_point next_tick() const { return next_tick_; }

  /// Sends heartbeats, fails silent peers, and looks after connections that are waited for. Time in which
  /// this process did not run does not count as its peers' silence.
  void tick(clock::time_point now);

 private:
  /// An endpoint without a connection, and what waits for one.
  struct attempt {
    struct waiter {
      clock::time_point deadline;
      fabric::on_connected done;
    };

    std::vector<waiter> waiters;
    bool dialling = false;
    clock::time_point retry_at;
  };

  void start_dialling(const std::string& endpoint);
  void tick_attempts(clock::time_point now);
  peer_connection_ptr find_node(const std::string& node) const;

  const fabric_settings& settings_;
  host& owner_;
  std::string endpoint_;
  std::vector<peer_connection_ptr> peers_;
  std::map<std::string, attempt> attempts_;
  clock::time_point next_tick_;
  clock::time_point next_heartbeat_;
};

} // namespace troupe::wire

// Sockets on which peers meet: listens, dials, runs handshakes, and hands over authenticated connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/name_lookup.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/socket.hpp"
#include "actors/transport/wire/handshake.hpp"

namespace troupe::wire {

/// An authenticated connection. The socket stays open as long as the peer lives.
struct acquaintance {
  introduction peer;
  /// Our name for the connection, as introduced to the peer.
  std::uint64_t token = 0;
  descriptor socket;
  record_reader reader;
  /// Bytes of the handshake that the socket has not taken yet.
  std::vector<std::byte> unsent;
  /// The endpoint we dialled, empty when the peer came to us.
  std::string dialled;
};

/// Everything runs on the thread that runs the poller; only `name_lookup` has its own.
class rendezvous {
 public:
  /// Decides on connections, and takes them.
  class host {
   public:
    virtual ~host();

    /// A fresh introduction of this process, with a token for the connection to come.
    virtual introduction introduce() = 0;

    /// The connection with this token will not come.
    virtual void forget_token(std::uint64_t token) = 0;

    /// Decides whether an authenticated peer may connect.
    /// @returns the reason for a refusal, and a sentence
    virtual std::optional<std::pair<refusal, std::string>> admit(const introduction& guest) = 0;

    virtual void met(acquaintance who) = 0;

    /// Dialling `endpoint` has failed. `reason` is set if the peer `node` refused.
    virtual void missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
                        const std::string& node) = 0;

    /// Runs `task` on the poller's thread; callable from any.
    virtual void post(std::function<void()> task) = 0;

    virtual void log(const char* event, const std::string& text) = 0;
  };

  /// @param handshake_deadline  longest time a connection may stay unauthenticated
  /// @param max_guests          unauthenticated incoming connections at a time; more are closed at once
  rendezvous(poller& events, host& owner, cluster_secrets secrets,
             std::chrono::milliseconds handshake_deadline, std::size_t max_guests);

  ~rendezvous();

  /// @errors throws `std::runtime_error`
  void listen(const endpoint_name& where);

  /// 0 when not listening.
  std::uint16_t port() const { return port_; }

  /// Starts to dial; ends in `met` or `missed`, within the handshake deadline plus that of DNS.
  void dial(const std::string& endpoint);

  /// Gives up dialling `endpoint`, silently.
  void cancel(const std::string& endpoint);

  /// Closes connections whose handshakes have exceeded their deadline.
  void tick(clock::time_point now);

 private:
  struct meeting {
    std::uint64_t id = 0;
    descriptor socket;
    std::optional<handshake> protocol;
    std::uint64_t token = 0;
    std::vector<std::byte> output;
    std::string dialled;
    std::vector<socket_address> addresses;
    clock::time_point deadline;
    poller::watch_id watch = 0;
    bool connecting = false;
  };

  void on_acceptable();
  void on_addresses(std::uint64_t id, std::vector<socket_address> addresses, const std::string& error);
  void try_next_address(meeting& m, std::string error);
  void on_ready(std::uint64_t id);
  void advance(meeting& m);
  bool flush(meeting& m);
  void hand_over(meeting& m);
  void end(meeting& m, const std::string& error, std::optional<refusal> reason);
  void watch(meeting& m, bool for_writing);
  std::unique_ptr<meeting> remove(std::uint64_t id);

  poller& events_;
  host& owner_;
  cluster_secrets secrets_;
  std::chrono::milliseconds handshake_deadline_;
  std::size_t max_guests_;
  std::size_t num_guests_ = 0;
  descriptor listener_;
  std::uint16_t port_ = 0;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::unique_ptr<meeting>> meetings_;
  // Last, so that its thread has ended before anything else goes.
  name_lookup names_;
};

} // namespace troupe::wire

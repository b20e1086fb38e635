// Connections of one process over the simulated network, below the transport's real CAF half. Promises and
// failures are those of the real fabric (actors/transport/fabric/ucx_fabric.hpp), with the same
// `peer_meeting`. Only lanes differ: here nothing overtakes between them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/fabric/fabric.hpp"
#include "actors/transport/fabric/peer_meeting.hpp"
#include "tests/simulation/network.hpp"

namespace troupe::simulation {

/// One connection, as one side of it sees it.
struct simulated_peer : wire::peer_connection {
  using wire::peer_connection::peer_connection;

  pipe_ptr out;
  pipe_ptr in;
};

using simulated_peer_ptr = std::shared_ptr<simulated_peer>;

/// It has no threads: what the real fabric does on its progress thread is planned on the agenda.
class simulated_fabric : public wire::fabric, private wire::peer_meeting::host {
 public:
  /// Where the process runs.
  struct place {
    std::string machine;
    process_gate_ptr gate;
    duration clock_offset{0}; ///< of the machine's clock
  };

  simulated_fabric(network& carrier, place where, wire::fabric_settings settings, listener& ears);
  ~simulated_fabric() override;

  void start() override;
  void stop() override;

  const std::string& endpoint() const override { return meeting_.endpoint(); }

  std::uint16_t port() const override { return 1; }

  wire::clock::time_point now() const override { return plans().now() + where_.clock_offset; }

  wire::submission submit(const wire::peer_connection_ptr& to, wire::outgoing_frame frame) override;
  void handled(const wire::peer_connection_ptr& peer, wire::credit what) override;
  void connect(std::string endpoint, wire::clock::time_point deadline, on_connected done) override;
  void post(std::function<void()> task) override;
  void drop(const wire::peer_connection_ptr& peer, std::string reason) override;

  bool may_keep_jobs() const override { return false; }

  wire::fabric_counters counters() const override { return totals_; }

  wire::fabric_level level() const override;

  // -- for the network --------------------------------------------------------

  const process_gate_ptr& gate() const { return where_.gate; }

  /// A peer has dialled this process.
  /// @param there  from the peer to this process
  /// @param back   from this process to the peer
  void come_in(wire::introduction guest, const pipe_ptr& there, const pipe_ptr& back);

 private:
  agenda& plans() const { return network_.plans(); }

  // -- coming -------------------------------------------------------------------
  simulated_peer_ptr make_peer();
  void attach(const simulated_peer_ptr& peer);
  void dial(const std::string& endpoint) override;
  void stop_dialling(const std::string& endpoint) override;
  void rise(const simulated_peer_ptr& peer, wire::introduction who);
  void refused(const simulated_peer_ptr& peer, const packet& word);

  // -- staying and going ----------------------------------------------------------
  wire::submission enqueue(const simulated_peer_ptr& to, wire::outgoing_frame frame);
  void arrived(const simulated_peer_ptr& peer, packet& what);
  void frame_arrived(const simulated_peer_ptr& peer, packet& what);
  void hang_up(const simulated_peer_ptr& peer);
  bool has_closed(const wire::peer_connection_ptr& peer) const override;
  void send_heartbeat(const wire::peer_connection_ptr& peer) override;
  void fail(const wire::peer_connection_ptr& which, const std::string& reason) override;
  void plan_tick();
  void tick();

  network& network_;
  place where_;
  wire::fabric_settings settings_;
  listener& ears_;
  wire::peer_meeting meeting_;
  std::map<std::string, simulated_peer_ptr> dialled_; ///< by endpoint, until the peer has answered
  std::deque<std::function<void()>> tasks_;           ///< posted; the agenda has an entry for each
  wire::fabric_counters totals_;
  bool stopped_ = false;
};

/// Makes the simulated fabric of one process.
class simulated_fabric_maker : public wire::fabric_maker {
 public:
  simulated_fabric_maker(network& carrier, simulated_fabric::place where)
      : network_(carrier), where_(std::move(where)) {}

  std::unique_ptr<wire::fabric> make(wire::fabric_settings settings, wire::fabric::listener& ears) override;

 private:
  network& network_;
  simulated_fabric::place where_;
};

} // namespace troupe::simulation

// A process's connections over the simulated network, below the transport's real CAF half. It keeps to what
// the real fabric (actors/transport/fabric/ucx_fabric.hpp) promises, and fails as that does, but for lanes:
// here nothing overtakes between them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/fabric/fabric.hpp"
#include "load/simulation/network.hpp"

namespace troupe::simulation {

/// One connection, as one side of it sees it.
struct simulated_peer : wire::peer_connection {
  using wire::peer_connection::peer_connection;

  pipe_ptr out;
  pipe_ptr in;
  time_point last_heard;
};

using simulated_peer_ptr = std::shared_ptr<simulated_peer>;

/// There are no threads: what the real one does on its progress thread is planned on the agenda.
class simulated_fabric : public wire::fabric {
 public:
  /// Where and how the process runs.
  struct place {
    std::string machine;
    process_gate_ptr gate;
    duration clock_offset{0}; ///< of the machine's clock
  };

  simulated_fabric(network& carrier, place where, wire::fabric_settings settings, listener& ears);
  ~simulated_fabric() override;

  void start() override;
  void stop() override;

  const std::string& endpoint() const override { return endpoint_; }

  uint16_t port() const override { return 1; }

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

  /// Somebody has dialled us.
  /// @param there  from the guest to us; @param back  from us to it
  void come_in(wire::introduction guest, const pipe_ptr& there, const pipe_ptr& back);

 private:
  struct attempt {
    struct waiter {
      time_point deadline;
      on_connected done;
    };

    std::vector<waiter> waiters{};
    simulated_peer_ptr dialling{}; ///< null while a pause passes
    time_point gives_up{};
    time_point retry_at{};
  };

  agenda& plans() const { return network_.plans(); }

  // -- coming (simulated_fabric_peers.cpp) --------------------------------------
  wire::introduction introduce(uint64_t token) const;
  simulated_peer_ptr make_peer();
  void attach(const simulated_peer_ptr& peer);
  void start_dialling(const std::string& endpoint);
  std::optional<std::pair<wire::refusal, std::string>> admit(const wire::introduction& guest);
  void rise(const simulated_peer_ptr& peer);
  void welcomed(const simulated_peer_ptr& peer, packet& word);
  void refused(const simulated_peer_ptr& peer, packet& word);
  void missed(const std::string& endpoint, const std::string& error);
  void settle(const std::string& endpoint, const connection& result);
  void tick_attempts();
  simulated_peer_ptr find_node(const std::string& node) const;
  simulated_peer_ptr find_endpoint(const std::string& endpoint) const;

  // -- staying and going ----------------------------------------------------------
  wire::submission enqueue(const simulated_peer_ptr& to, wire::outgoing_frame frame);
  void arrived(const simulated_peer_ptr& peer, packet& what);
  void frame_arrived(const simulated_peer_ptr& peer, packet& what);
  void hang_up(const simulated_peer_ptr& peer);
  void fail(const simulated_peer_ptr& peer, const std::string& reason);
  void plan_tick();
  void tick();
  void send_heartbeats();

  network& network_;
  place where_;
  wire::fabric_settings settings_;
  listener& ears_;
  std::string endpoint_;
  std::vector<simulated_peer_ptr> peers_;
  std::map<std::string, attempt> attempts_;
  std::deque<std::function<void()>> tasks_; ///< posted; each has its turn on the agenda
  time_point next_tick_;
  time_point next_heartbeat_;
  wire::fabric_counters totals_;
  bool stopped_ = false;
};

/// Hands a process's transport its simulated fabric.
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

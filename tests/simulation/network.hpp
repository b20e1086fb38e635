// Network of a simulated cluster: how long bytes take from one machine to another, and what faults do to
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/wire/handshake.hpp"
#include "actors/transport/wire/payload.hpp"
#include "actors/transport/wire/window.hpp"
#include "tests/simulation/agenda.hpp"
#include "tests/simulation/dice.hpp"
#include "tests/simulation/process_gate.hpp"

namespace troupe::simulation {

class simulated_fabric;

/// What travels over a connection.
struct packet {
  enum class kind : std::uint8_t {
    welcome,   ///< the peer accepts the connection, and introduces itself
    refusal,   ///< or refuses it
    frame,     ///< a frame of the transport, as bytes
    heartbeat, ///< alive, and what has been handled of each lane
  };

  kind what = kind::frame;
  std::vector<char> head; ///< of a frame: its header and metadata
  payload data;           ///< of a frame
  std::array<wire::receive_window::totals, wire::num_lanes> handled{}; ///< of a heartbeat
  wire::introduction from{};
  wire::refusal reason{};
  std::string text{}; ///< of a refusal
};

/// One direction of one connection: packets arrive in the order in which they were sent. The end of the
/// connection reaches the receiver separately, so the last packets under way are lost.
struct pipe {
  struct entry {
    packet what;
    time_point arrives;
  };

  std::string from; ///< machines
  std::string to;
  process_gate_ptr receiver;
  std::function<void(packet&)> deliver;
  std::function<void()> closed; ///< tells the receiver that the other side has closed the connection
  std::deque<entry> under_way;
  time_point last_arrival{};
  bool is_closed = false; ///< nothing gets in any more
};

using pipe_ptr = std::shared_ptr<pipe>;

/// A machine has one process at most, and a name, by which its endpoint is found: "NAME:1".
class network {
 public:
  struct speeds {
    duration latency = std::chrono::microseconds{60};
    duration jitter = std::chrono::microseconds{60}; ///< added at random, up to so much
    double bytes_per_ns = 1.25;                      ///< 10 Gbit/s
  };

  network(agenda& when, dice& random, speeds usual) : agenda_(when), dice_(random), usual_(usual) {}

  simulation::agenda& plans() { return agenda_; }

  dice& random() { return dice_; }

  static std::string endpoint_of(const std::string& machine) { return machine + ":1"; }

  // -- for fabrics ------------------------------------------------------------

  void listen(const std::string& machine, simulated_fabric& who);

  void stop_listening(const std::string& machine) { listeners_.erase(machine); }

  /// Sends a connection's first bytes from one machine to another. Calls `reached` with the fabric that
  /// listens there, or `refused` if none does, or neither if the way is cut.
  void knock(const std::string& from, const std::string& to, std::function<void(simulated_fabric&)> reached,
             std::function<void()> refused);

  pipe_ptr make_pipe(const std::string& from, const std::string& to, process_gate_ptr receiver);

  void send(const pipe_ptr& through, packet what, std::size_t num_bytes);

  /// The sender has closed the connection, or its process has died. What is under way may still arrive, up to
  /// the moment when the receiver hears of it.
  void close(const pipe_ptr& which);

  // -- faults -----------------------------------------------------------------

  /// From now on nothing gets from one machine to another. What is sent meanwhile arrives after `heal`, if
  /// the connection lives so long.
  void cut(const std::string& from, const std::string& to);

  void heal(const std::string& from, const std::string& to);

  /// Everything takes `factor` times as long from now on. 1: as usual
  void slow_down(const std::string& from, const std::string& to, std::uint32_t factor);

  /// The connections between two machines break: a random part of what is under way is lost, the end of it,
  /// and both sides hear of the end, each in its own time.
  void reset(const std::string& one, const std::string& other);

  /// A machine is gone; its peers see nothing.
  void lose(const std::string& machine);

 private:
  struct path {
    bool is_cut = false;
    std::uint32_t factor = 1;
    time_point busy_until{};
    std::vector<std::weak_ptr<pipe>> pipes{};
  };

  path& between(const std::string& from, const std::string& to) { return paths_[{from, to}]; }

  /// Of one packet, from now on.
  duration delay(const path& on);
  void plan_arrival(const pipe_ptr& of, time_point when);
  void pump(const pipe_ptr& which);
  /// Those that are still there.
  std::vector<pipe_ptr> pipes_of(path& on);
  void forget_some(pipe& of);

  simulation::agenda& agenda_;
  dice& dice_;
  speeds usual_;
  std::map<std::pair<std::string, std::string>, path> paths_;
  std::map<std::string, simulated_fabric*> listeners_;
  std::set<std::string> lost_; ///< machines
};

} // namespace troupe::simulation

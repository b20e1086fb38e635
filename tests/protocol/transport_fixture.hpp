// Actors and systems for tests of the transport: an echo server, clients, two systems in one process, child
// processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_actor.hpp>

#include "actors/transport/caf/transport.hpp"

namespace troupe::test {

/// Longest wait for an expected event: only a failing test waits this long, on any machine.
inline constexpr std::chrono::seconds patience{60};

/// Waits for the effect of another thread or process.
template <class Predicate>
bool eventually(Predicate holds) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

/// The content of messages: some metadata and several payloads.
struct batch {
  std::uint64_t id = 0;
  std::string note;
  std::vector<payload> parts;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, batch& x) {
  return f(caf::meta::type_name("troupe::test::batch"), x.id, x.note, x.parts);
}

/// The SERVER interface of the transport tests.
using server_actor = caf::typed_actor<
    // Returns the batch with `id + 1`.
    caf::replies_to<batch>::with<batch>,
    // Receives a batch and records whether its id follows the last one.
    caf::reacts_to<caf::put_atom, batch>,
    // Number of received batches, and how many of them were out of order.
    caf::replies_to<caf::get_atom>::with<std::uint64_t, std::uint64_t>,
    // Never answers, and keeps the promise.
    caf::replies_to<caf::pending_atom, batch>::with<batch>,
    // Sends `x + 1` to the handle in the message.
    caf::reacts_to<caf::forward_atom, caf::actor, std::int32_t>,
    // Ends.
    caf::reacts_to<caf::close_atom>>;

server_actor spawn_server(caf::actor_system& sys);

/// A payload of `num_bytes` whose content follows from `seed`.
payload patterned(std::size_t num_bytes, std::uint64_t seed);

struct system_config : caf::actor_system_config {
  system_config();
};

/// Options for loopback: a secret, any port, the loopback device, deadlines that a loaded machine meets.
transport_options loopback_options();

/// First of `count` adjacent TCP ports unused on loopback, below the system's ephemeral ports, so that none
/// is taken by chance.
std::uint16_t unused_ports(std::uint16_t count);

/// An actor system with its transport, which is destroyed first.
struct node {
  explicit node(transport_options options = loopback_options());
  ~node();

  /// Resolves through the transport actor, as actors do.
  caf::expected<caf::strong_actor_ptr> resolve(const std::string& endpoint, const std::string& name);

  server_actor server_at(const std::string& endpoint, const std::string& name = "server");

  /// Log lines so far, "event: text".
  std::vector<std::string> lines() const;
  bool logged(const std::string& part) const;
  /// Waits until a line contains `part`.
  bool await_line(const std::string& part) const;
  /// Waits until there are at least `count` lines.
  bool await_lines(std::size_t count) const;

  struct journal;
  std::shared_ptr<journal> log;
  system_config config;
  caf::actor_system system;
  std::unique_ptr<transport> net;
};

/// A child process that serves "server"; killed at the end.
class child {
 public:
  /// @param args  further arguments, see transport_node.cpp
  explicit child(const std::vector<std::string>& args = {});
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child();

  const std::string& endpoint() const { return endpoint_; }

  /// TCP ports on which the process listens, including its data ports.
  std::vector<std::uint16_t> listening_ports() const;

  /// SIGSTOP, and waits until every thread of the process has stopped.
  void stop() const;

  /// SIGCONT.
  void resume() const;

  /// SIGKILL, and waits until the process is gone.
  void kill();

 private:
  int pid_ = -1;
  int stdin_ = -1;
  std::string endpoint_;
};

} // namespace troupe::test

CAF_BEGIN_TYPE_ID_BLOCK(transport_test, troupe::transport_type_ids_end)

  CAF_ADD_TYPE_ID(transport_test, (troupe::test::batch))

CAF_END_TYPE_ID_BLOCK(transport_test)

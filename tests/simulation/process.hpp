// One process of a simulated cluster: an actor system of its own on virtual time, the real transport above
// simulated links, and the actors that die with it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/expected.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/transport/caf/transport.hpp"
#include "tests/simulation/network.hpp"

namespace troupe::simulation {

/// How a process ends.
enum class ending {
  in_order, ///< what its actors still say at EXIT reaches the others
  killed,   ///< as by `kill -9`: the others see connections close
  lost,     ///< with its machine: the others see nothing
};

class process {
 public:
  /// @param number  of this incarnation: no two processes of a simulation have the same
  process(network& carrier, std::string machine, std::uint64_t number, std::string fingerprint);

  /// Ends it as killed, if it has not ended.
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  const std::string& machine() const { return machine_; }

  caf::actor_system& system() { return *system_; }

  transport& peers() { return *peers_; }

  /// An actor that ends with the process; the last ones first where it ends in order.
  template <class Handle>
  Handle add(Handle handle) {
    actors_.push_back(caf::actor_cast<caf::strong_actor_ptr>(handle));
    return handle;
  }

  /// @throws std::logic_error when an actor outlives it
  void end(ending how);

  void stop() { gate_->stop(); }

  void go_on() { gate_->go_on(); }

  bool runs() const { return gate_->runs(); }

  /// For those parts of the simulation that watch the process from outside.
  const process_gate_ptr& gate() const { return gate_; }

  /// Asks an actor of this process, and tells what it says, or why it says nothing.
  template <class Result, class Handle, class... Parts>
  void ask(std::function<void(caf::expected<Result>)> done, const Handle& handle, Parts... parts) {
    add(system_->spawn([done, handle, ... parts = std::move(parts)](caf::event_based_actor* self) {
      self->request(handle, std::chrono::seconds{5}, parts...)
          .then([done](Result& value) { done(std::move(value)); },
                [done](caf::error& error) { done(std::move(error)); });
    }));
  }

  // -- for the world, which moves time ---------------------------------------------------

  bool has_job() const { return gate_->runs() && coordinator_->has_job(); }

  /// Runs an actor that is ready over one message. @pre has_job()
  void run_job(dice& which);

  /// When the first of its timeouts falls due; nothing while there is none, or it is stopped.
  std::optional<time_point> next_timeout() const;

  /// Sets its clock, and fires what is due. @pre runs()
  void catch_up();

 private:
  /// @throws std::logic_error; the system may end although actors of it have not
  [[noreturn]] void fail(const std::string& why);

  caf::actor_system_config& configured();

  network& network_;
  std::string machine_;
  std::uint64_t number_;
  process_gate_ptr gate_ = std::make_shared<process_gate>();
  duration clock_offset_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* coordinator_ = nullptr;
  std::unique_ptr<transport> peers_;
  std::vector<caf::strong_actor_ptr> actors_;
  std::size_t running_at_start_ = 0;
};

} // namespace troupe::simulation

// The one loop that moves a simulated cluster: which process runs next, and when time moves, by a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/agenda.hpp"
#include "tests/simulation/dice.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/process.hpp"

namespace troupe::simulation {

/// Everything happens on the calling thread. At one moment of virtual time any process with a ready actor may
/// be next, and any of its ready actors; time moves when none has one.
class world {
 public:
  explicit world(std::uint64_t seed, network::speeds speeds = {})
      : dice_(seed), network_(agenda_, dice_, speeds) {}

  dice& random() { return dice_; }

  network& links() { return network_; }

  agenda& plans() { return agenda_; }

  /// Since the beginning.
  duration elapsed() const { return agenda_.now() - start_; }

  /// Starts a process on a machine, which has none.
  process& start(const std::string& machine, const std::string& fingerprint);

  /// Ends a process.
  void end(const std::string& machine, ending how);

  /// Null when there is none.
  process* find(const std::string& machine);

  /// Goes on until `done` holds. False when `limit` passes first.
  /// @throws std::logic_error when actors keep each other busy without time moving
  bool run_until(const std::function<bool()>& done, duration limit);

  void run_for(duration time) {
    run_until([] { return false; }, time);
  }

  /// Runs at most so many messages without time moving: what happens next happens in the middle of others.
  void run_some(std::uint32_t messages);

  /// Messages handled so far.
  std::uint64_t messages() const { return messages_; }

 private:
  bool run_one();
  /// Moves time to what is due next and does that; false when it is due after `limit`.
  bool move(time_point limit);

  agenda agenda_;
  time_point start_ = agenda_.now();
  dice dice_;
  network network_;
  std::vector<std::unique_ptr<process>> processes_;
  std::uint64_t num_started_ = 0;
  std::uint64_t messages_ = 0;
};

} // namespace troupe::simulation

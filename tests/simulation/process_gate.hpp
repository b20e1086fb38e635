// Whether a simulated process runs, and what waits for it while it does not.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::simulation {

/// All that is done to a process, or by it, passes its gate: at once while the process runs; once it goes on,
/// if it is stopped (as by SIGSTOP: its kernel still takes bytes); never, once it has died.
class process_gate {
 public:
  bool runs() const { return state_ == state::runs; }

  bool is_dead() const { return state_ == state::dead; }

  void pass(std::function<void()> what) {
    if (state_ == state::runs)
      what();
    else if (state_ == state::stopped)
      waiting_.push_back(std::move(what));
  }

  void stop() {
    if (state_ == state::runs)
      state_ = state::stopped;
  }

  void go_on() {
    if (state_ != state::stopped)
      return;
    state_ = state::runs;
    for (auto& what : std::exchange(waiting_, {}))
      pass(std::move(what));
  }

  void die() {
    state_ = state::dead;
    waiting_.clear();
  }

 private:
  enum class state { runs, stopped, dead };

  state state_ = state::runs;
  std::vector<std::function<void()>> waiting_;
};

using process_gate_ptr = std::shared_ptr<process_gate>;

} // namespace troupe::simulation

#include "actors/cluster/member_pulse.hpp"

#include <utility>

#include "actors/protocol/defaults.hpp"

namespace troupe {

void member_pulse::joined() {
  const std::lock_guard lock{mutex_};
  apart_.clear();
  heard_.reset();
}

void member_pulse::ready() {
  const std::lock_guard lock{mutex_};
  is_ready_ = true;
}

void member_pulse::fenced() {
  const std::lock_guard lock{mutex_};
  is_ready_ = false;
}

void member_pulse::apart(std::string why) {
  const std::lock_guard lock{mutex_};
  apart_ = std::move(why);
  heard_.reset();
}

void member_pulse::leaves() {
  const std::lock_guard lock{mutex_};
  leaves_ = true;
}

void member_pulse::heard(clock::time_point now, const engine_progress& engine) {
  const std::lock_guard lock{mutex_};
  heard_ = now;
  engine_ = engine;
}

std::string member_pulse::why_not_ready() const {
  const std::lock_guard lock{mutex_};
  if (leaves_)
    return "leaves the cluster";
  if (is_ready_)
    return {};
  return apart_.empty() ? "has yet to load the experts that it is to hold" : apart_;
}

std::string member_pulse::flaw(clock::time_point now) const {
  const std::lock_guard lock{mutex_};
  if (leaves_ || !apart_.empty() || !heard_)
    return {};
  if (engine_.is_stalled())
    return "the engine has worked on one step for " + std::to_string(engine_.oldest_step_ms)
           + " ms; it may take " + std::to_string(engine_.step_limit_ms) + " ms";
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - *heard_);
  if (silence > defaults::worker_silence)
    return "the worker has not said its load for " + std::to_string(silence.count()) + " ms";
  return {};
}

} // namespace troupe
